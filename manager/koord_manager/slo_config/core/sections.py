"""The keys that become sections of NodeSLOs: laid over each other, and tried out. No IO.

A section is valid if nothing of it would be ignored by ``koord_model.node_slo_document``, with
which nodes read it, and the definition of NodeSLO takes it: that has fields which nodes do not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord_kube.definitions.node_slo import NODE_SLO
from koord_kube.definitions.schema import Schema
from koord_model import node_slo_document
from koord_model.cpu_burst import CPUBurst
from koord_model.used_threshold import UsedThreshold

from koord_manager.slo_config.core.network import over_promised
from koord_manager.slo_config.core.schema import fields_of, violations

Document = Mapping[str, object]

[_VERSION] = NODE_SLO["spec"]["versions"]
_SPEC: Schema = _VERSION["schema"]["openAPIV3Schema"]["properties"]["spec"]
_THRESHOLD = UsedThreshold()
_BURST = CPUBurst()

THRESHOLD: Document = {
    "enable": _THRESHOLD.enable,
    "cpuSuppressThresholdPercent": _THRESHOLD.cpu_suppress,
    "cpuSuppressPolicy": _THRESHOLD.cpu_suppress_policy.value,
    "memoryEvictThresholdPercent": _THRESHOLD.memory_evict,
    "cpuEvictPolicy": _THRESHOLD.cpu_evict_policy.value,
}
BURST: Document = {
    "policy": _BURST.policy.value,
    "cpuBurstPercent": _BURST.burst_percent,
    "cfsQuotaBurstPercent": _BURST.quota_percent,
    "cfsQuotaBurstPeriodSeconds": _BURST.quota_period_seconds,
    "sharePoolThresholdPercent": _BURST.share_pool_threshold,
}
SYSTEM: Document = {"totalNetworkBandwidth": "0"}
"""Part of NodeSLOs without a configuration, as Koordinator's manager writes it."""


@dataclass(frozen=True, slots=True)
class NodeSLOSection:
    """One section, or one field of it that is a list: where it is in a NodeSLO's spec."""

    path: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        """Schema of that part of a NodeSLO, be it used by nodes or not."""
        found: Schema = _SPEC
        for name in self.path:
            found = found.get("properties", {}).get(name, {})
        return found

    def overlay(
        self, usual: Document, document: Document, where: str, problems: list[str]
    ) -> Document:
        """The document laid over ``usual``."""
        merged = laid_over(usual, document)
        problems.extend(self.problems(merged, where))
        return merged

    def problems(self, value: object, where: str) -> list[str]:
        """Return the parts that a node would ignore, or an API server refuse it all for."""
        spec = {self.path[-1]: value}
        for name in reversed(self.path[:-1]):
            spec = {name: spec}
        _, ignored = node_slo_document.parse(spec)
        prefix = f"NodeSLO {'.'.join(self.path)}"
        # What follows is " is …" of the value itself, or ".field", or "[0].field" of a list.
        rests = [line.removeprefix(prefix) for line in ignored]
        reported = {line.partition("; ")[0] for line in rests}
        refused = violations(value, self.schema)
        rests += [line for line in refused if line.partition("; ")[0] not in reported]
        lines = [f"{where}{' ' + rest[1:] if rest[0] == '.' else rest}" for rest in rests]
        return lines + [f"{where} {line}" for line in over_promised(spec)]


RESOURCE_THRESHOLD = NodeSLOSection(("resourceUsedThresholdWithBE",))
RESOURCE_QOS = NodeSLOSection(("resourceQOSStrategy",))
CPU_BURST = NodeSLOSection(("cpuBurstStrategy",))
SYSTEM_STRATEGY = NodeSLOSection(("systemStrategy",))
HOST_APPLICATIONS = NodeSLOSection(("hostApplications",))
STRATEGIES = NodeSLOSection(("extensions", "pykoord"))
STRATEGIES_SCHEMA: Schema = fields_of(["strategies"])
"""Schema of the strategies' settings, of which only nodes know the names."""


def overlay_applications(
    usual: Document, document: Document, where: str, problems: list[str]
) -> Document:
    """``applications`` of one layer: a layer that lists none has none, as in Koordinator."""
    del usual
    listed = document.get("applications") or []
    problems.extend(HOST_APPLICATIONS.problems(listed, f"{where} applications"))
    return laid_over({}, {"applications": listed})


def laid_over(below: Document, above: Document) -> Document:
    """Objects are merged field by field, all else is replaced; ``null`` and "" are ignored.

    So the result has no ``null``, which an API server would refuse.
    """
    merged = dict(below)
    for name, given in above.items():
        if given is None or given == "":
            continue
        known = merged.get(name)
        if isinstance(given, Mapping):
            merged[name] = laid_over(known if isinstance(known, Mapping) else {}, given)
        else:
            merged[name] = _without_nulls(given)
    return merged


def _without_nulls(given: object) -> object:
    if isinstance(given, list):
        return [_without_nulls(item) for item in given]
    return laid_over({}, given) if isinstance(given, Mapping) else given
