"""A profile as its author wrote it: a ServiceProfileDescriptor, or a ConfigMap twin. No IO.

The twin has the label ``koordinator.sh/configmap-type: service-profile`` and, in ``data.spec``, the
descriptor's spec as YAML or JSON. Of a target the upper bound counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from koord_model.fields import Fields, shown
from koord_model.service_targets import HIGHEST_TARGET, Indicator
from koord_model.yaml_documents import yaml_document

from koord_manager.service_profiles.core.objects import WorkloadKind

TYPE_LABEL = ("koordinator.sh/configmap-type", "service-profile")
SPEC_KEY = "spec"

INDICATORS: Mapping[str, Indicator] = {
    "cpu_sched_wait": Indicator.SCHED_WAIT,
    "cpu_usage_ratio": Indicator.USAGE,
    "cpi": Indicator.CPI,
    "psi": Indicator.PSI,
}
"""Katalyst's system indicators, and one of ours, by the names of profiles."""

_OFFLOADING = "TransparentMemoryOffloading"
_UPPER, _LOWER = "UpperBound", "LowerBound"


NO_KIND = WorkloadKind("", "")


class ProfileSource(StrEnum):
    """Kind of object that a profile is from; the first goes before."""

    DESCRIPTOR = "ServiceProfileDescriptor"
    CONFIG_MAP = "ConfigMap"


@dataclass(frozen=True, slots=True)
class ProfileDocument:
    """A profile; ``created`` is as Kubernetes writes times.

    ``problem`` is why nothing of it can be used. ``refused`` are lines on parts that cannot be,
    ``unused`` on those that nothing here acts on. Percentages are of the service's pods.
    """

    source: ProfileSource
    namespace: str
    name: str
    uid: str = ""
    created: str = ""
    kind: WorkloadKind = NO_KIND
    workload: str = ""
    targets: Mapping[Indicator, float] = field(default_factory=dict)
    baseline_percent: int | None = None
    memory_offload: bool | None = None
    memory_percent: int | None = None
    problem: str = ""
    refused: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def reference(self) -> dict[str, str]:
        """Return an Event's reference to it."""
        version = "v1" if self.source is ProfileSource.CONFIG_MAP else DESCRIPTOR_VERSION
        about = {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {"apiVersion": version, "kind": self.source.value, "metadata": about}  # type: ignore[dict-item]

    @property
    def lines(self) -> tuple[str, ...]:
        """Everything that has no effect, and why."""
        return ((self.problem,) if self.problem else ()) + self.refused + self.unused


DESCRIPTOR_VERSION = "workload.katalyst.kubewharf.io/v1alpha1"


def read(document: Mapping[str, Any], source: ProfileSource) -> ProfileDocument:
    """Read an object; whatever is in it, what can be used is."""
    meta = Fields(document.get("metadata"), "metadata", [])
    about = (
        meta.text("namespace"),
        meta.text("name"),
        meta.text("uid"),
        meta.text("creationTimestamp"),
    )
    refused: list[str] = []
    unused: list[str] = []
    try:
        spec = Fields(_spec(document, source), "spec", refused)
        kind, workload = _target_ref(spec.of("targetRef"))
    except ValueError as error:
        return ProfileDocument(source, *about, problem=str(error))
    targets = dict(_targets(spec, unused))
    offload, memory_percent = _extended(spec, unused)
    if spec.has("businessIndicator"):
        unused.append("spec businessIndicator: nothing here measures services' own numbers")
    return ProfileDocument(
        source,
        *about,
        kind=kind,
        workload=workload,
        targets=targets,
        baseline_percent=spec.number("baselinePercent", None, 0, 100),
        memory_offload=offload,
        memory_percent=memory_percent,
        refused=tuple(refused),
        unused=tuple(unused),
    )


def _spec(document: Mapping[str, Any], source: ProfileSource) -> object:
    if source is ProfileSource.DESCRIPTOR:
        return document.get("spec")
    data = document.get("data")
    given = data.get(SPEC_KEY) if isinstance(data, Mapping) else None
    if not isinstance(given, str):
        raise ValueError(f"data.{SPEC_KEY} is {shown(given)}; expected a profile's spec as YAML")  # noqa: TRY004 - input
    try:
        return yaml_document(given)
    except ValueError as error:
        raise ValueError(f"data.{SPEC_KEY} is not valid YAML: {error}") from None


def _target_ref(fields: Fields) -> tuple[WorkloadKind, str]:
    found = {name: fields.text(name) for name in ("apiVersion", "kind", "name")}
    for name, value in found.items():
        if not value:
            raise ValueError(
                f"spec targetRef.{name} is missing; expected that of a workload, such as "
                "apps/v1, Deployment, web"
            )
    return WorkloadKind(found["apiVersion"], found["kind"]), found["name"]


def _targets(spec: Fields, unused: list[str]) -> Iterator[tuple[Indicator, float]]:
    seen: set[str] = set()
    for indicator in spec.objects("systemIndicator"):
        name = indicator.text("name")
        if name in seen:
            indicator.refuse("name", "a name that no other has", "left out")
            continue
        seen.add(name)
        if name not in INDICATORS:
            known = ", ".join(INDICATORS)
            unused.append(f"spec systemIndicator {shown(name)}: there are {known} (left out)")
            continue
        upper = _upper_bound(indicator)
        if upper is not None:
            yield INDICATORS[name], upper


def _upper_bound(indicator: Fields) -> float | None:
    found: dict[str, float] = {}
    for bound in indicator.objects("indicators"):
        level = bound.text("indicatorLevel")
        if level not in (_UPPER, _LOWER):
            bound.refuse("indicatorLevel", f"{_UPPER} or {_LOWER}", "indicator left out")
            return None
        if level in found:
            bound.refuse("indicatorLevel", "each level once", "indicator left out")
            return None
        expected = f"a number above 0, {HIGHEST_TARGET:.0f} at most"
        value = bound.take("value", None, _bound, expected, "indicator left out")
        if value is None or (level == _UPPER and not value):
            if value is not None or not bound.has("value"):
                bound.refuse("value", expected, "indicator left out")
            return None
        found[level] = value
    if found.get(_LOWER, 0.0) > found.get(_UPPER, HIGHEST_TARGET):
        indicator.refuse("indicators", "a lower bound below the upper bound", "left out")
        return None
    if found and _UPPER not in found:
        indicator.refuse("indicators", f"an {_UPPER}, which is the target", "left out")
    return found.get(_UPPER)


def _bound(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    if not 0 <= given <= HIGHEST_TARGET:
        raise ValueError(given)
    return float(given)


def _extended(spec: Fields, unused: list[str]) -> tuple[bool | None, int | None]:
    """Return whether memory is offloaded, and the percentage of pods that this leaves alone."""
    found: tuple[bool | None, int | None] = None, None
    for extended in spec.objects("extendedIndicator"):
        name = extended.text("name")
        if name != _OFFLOADING:
            unused.append(f"spec extendedIndicator {shown(name)}: there is {_OFFLOADING}")
            continue
        percent = extended.number("baselinePercent", None, 0, 100)
        detail = extended.of("indicators").of("configDetail")
        found = detail.flag("enableTMO", None), percent
        unused.extend(
            f"spec extendedIndicator {_OFFLOADING} configDetail.{field}: the strategy "
            "memory_offload has settings of its own"
            for field, _ in detail.entries()
            if field != "enableTMO"
        )
    return found
