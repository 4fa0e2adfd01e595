"""Limits of memory bandwidth from what the collector ``resctrl`` measured. No IO.

One step for each measurement: targets of the groups where traffic arrives, then where it leaves,
then limits of each cache. Nothing measured is no opinion: the limits of the NodeSLO hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from koord_model.node_info import MemoryBandwidthInfo
from koord_model.resctrl import ResctrlLimits

from koordlet.qos_manager.core.strategy import Decision, StrategyView, Term
from koordlet.qos_manager.strategies.resctrl.feedback import (
    PRIORITY,
    DomainTargets,
    GroupTraffic,
    HardwareSteps,
    flow_matrix,
    group_targets,
    memory_domains,
    next_percent,
    outgoing_targets,
)

_MIB = 1 << 20
_TARGETS = "free = max(capacity − {uses}, 0)"

Flows = Mapping[tuple[str, int], GroupTraffic]
"""By group and cache."""


@dataclass(frozen=True, slots=True)
class Regulation:
    """The limits of the last step; ``steady`` is the time of its measurement."""

    steady: float = float("-inf")
    percents: Mapping[tuple[str, int], int] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()


def regulate(
    view: StrategyView,
    classes: Mapping[str, ResctrlLimits],
    before: Regulation,
    capacity: float | None,
    floor: float,
) -> Regulation:
    """The next step, if there is a new measurement.

    ``capacity`` is what a domain's memory can move, ``floor`` what a cache may always move.
    """
    info = view.latest.info(MemoryBandwidthInfo)
    domains = memory_domains(view.cpus)
    flows = _flows(view, domains)
    if capacity is None:
        return _static("domain_capacity_gb is not set")
    if info is None or not any(group in classes for group, _ in flows):
        return _static("no memory bandwidth was measured")
    if info.steady == before.steady:
        return before
    step = _Step(info, domains, flows, capacity, floor)
    targets = step.domain_targets()
    percents = {
        key: percent
        for name, limits in classes.items()
        for key, percent in step.percents(limits, targets, before.percents).items()
    }
    decisions = tuple(step.decision(domain, found) for domain, found in targets.items())
    return Regulation(info.steady, percents, decisions)


def _static(reason: str) -> Regulation:
    outcome = f"memory bandwidth is not regulated, the limits of the NodeSLO hold: {reason}"
    return Regulation(decisions=(Decision(outcome),))


def _flows(view: StrategyView, domains: Mapping[int, int]) -> Flows:
    flows = {}
    for group in PRIORITY:
        for cache in domains:
            total = view.latest.value("resctrl_resource_mb", group, str(cache), "total")
            local = view.latest.value("resctrl_resource_mb", group, str(cache), "local")
            if total is not None:
                flows[group, cache] = GroupTraffic(
                    total, min(total if local is None else local, total)
                )
    return flows


@dataclass(frozen=True, slots=True)
class _Step:
    info: MemoryBandwidthInfo
    domains: Mapping[int, int]
    flows: Flows
    capacity: float
    floor: float

    @property
    def _order(self) -> list[int]:
        return sorted(set(self.domains.values()))

    def _sums(self, group: str) -> tuple[list[float], list[float]]:
        """A group's local and remote traffic that leaves each domain."""
        local = dict.fromkeys(self._order, 0.0)
        remote = dict.fromkeys(self._order, 0.0)
        for (name, cache), traffic in self.flows.items():
            if name == group:
                local[self.domains[cache]] += traffic.local
                remote[self.domains[cache]] += traffic.total - traffic.local
        return list(local.values()), list(remote.values())

    def domain_targets(self) -> Mapping[int, DomainTargets]:
        """Traffic that each group may receive, by domain."""
        incoming = {}
        for group in dict.fromkeys(name for name, _ in self.flows):
            local, remote = self._sums(group)
            sent = [near + far for near, far in zip(local, remote, strict=True)]
            incoming[group] = sent @ flow_matrix(local, remote)
        return {
            domain: group_targets(
                self.capacity, {group: float(use[at]) for group, use in incoming.items()}
            )
            for at, domain in enumerate(self._order)
        }

    def percents(
        self,
        limits: ResctrlLimits,
        targets: Mapping[int, DomainTargets],
        before: Mapping[tuple[str, int], int],
    ) -> Mapping[tuple[str, int], int]:
        """A group's limits: a domain's target is split over its caches by use."""
        group = limits.group
        measured = {cache: flow for (name, cache), flow in self.flows.items() if name == group}
        if not measured:
            return {}
        incoming = [found.by_group[group] for found in targets.values()]
        local, remote = self._sums(group)
        sent = dict(zip(self._order, outgoing_targets(local, remote, incoming), strict=True))
        used = dict(zip(self._order, map(sum, zip(local, remote, strict=True)), strict=True))
        most = 100 if limits.mb is None else limits.mb
        found = {}
        for cache, traffic in measured.items():
            domain = self.domains[cache]
            part = traffic.total / used[domain] if used[domain] else 0.0
            known = self._present(group, cache)
            previous = before.get((group, cache), most) if known is None else known
            target = max(sent[domain] * part, self.floor)
            found[group, cache] = next_percent(
                previous, target, traffic.total, most, self._hardware()
            )
        return found

    @property
    def _full(self) -> float:
        """100 % of the bandwidth, in the units of MB lines."""
        return self.info.full or self.capacity / _MIB

    def _hardware(self) -> HardwareSteps:
        return HardwareSteps(
            max(100 * self.info.least / self._full, 1), max(100 * self.info.step / self._full, 1)
        )

    def _present(self, group: str, cache: int) -> float | None:
        """The limit in the group's schemata when it was measured."""
        value = self.info.limits.get(group, {}).get(cache)
        return None if value is None else min(100 * value / self._full, 100)

    def decision(self, domain: int, found: DomainTargets) -> Decision:
        """The decision about a domain."""
        given = (
            Term("capacity", self.capacity / 1e9, "GB/s"),
            *(Term(name, use / 1e9, "GB/s") for name, use in found.uses.items()),
            Term("free", found.free / 1e9, "GB/s"),
        )
        return Decision(
            f"memory bandwidth of domain {domain} is {found.state}",
            _TARGETS.format(uses=" − ".join(found.uses)),
            given,
            aspect=f"domain {domain}",
        )


def regulated(limits: ResctrlLimits, found: Regulation, capacity: float | None) -> ResctrlLimits:
    """A group's limits with those of the last step."""
    by_cache = {cache: value for (name, cache), value in found.percents.items()
                if name == limits.group}  # fmt: skip
    if not by_cache:
        return limits
    full = int(capacity / _MIB) if capacity else None
    return replace(limits, mb_by_domain={**limits.mb_by_domain, **by_cache}, full_mbps=full)
