"""NodeNUMAResource: pods get CPUs of their own, and resources from the same NUMA nodes. No IO.

What a pod gets of one node is decided in ``koord_scheduler.numa``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from koord_model import cpuset

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.resources import ALWAYS
from koord_scheduler.framework.plugin import (
    Filter,
    Limit,
    Plugin,
    PreFilterResult,
    Reason,
    Score,
    filter_by_reasons,
)
from koord_scheduler.framework.resource_scores import ResourceScore, least_allocated, most_allocated
from koord_scheduler.numa.placement import (
    NodePlacement,
    NodeUse,
    NUMARejection,
    NUMASettings,
    PodNeeds,
    pod_needs,
)
from koord_scheduler.numa.reservation import NUMAReservation, numa_reservation
from koord_scheduler.numa.scores import most_taken

_NONE = NUMARejection(())


class NodeNUMAResource(Plugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "NodeNUMAResource"

    def __init__(self, settings: NUMASettings | None = None) -> None:
        self._settings = settings or NUMASettings()

    def prepare(self, nodes: NodeColumns) -> None:
        nodes.numa.is_used = True

    def pre_filter(self, pod: PodClass, nodes: NodeColumns) -> PreFilterResult:
        needs = self._needs(pod)
        return PreFilterResult(needs if isinstance(needs, str) else "")

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        return filter_by_reasons(self, pod, nodes) if _asks(pod) else None

    def reasons(self, pod: PodClass, nodes: NodeColumns, rows: Rows) -> list[Reason]:
        if not _asks(pod):
            return []
        needs = self._needs(pod)
        if isinstance(needs, str):
            return [Reason(needs, np.ones(len(rows), np.bool_), resolvable=False)]
        found: dict[tuple[str, bool], list[int]] = {}
        for place in _concerned(needs, nodes, rows):
            rejection = self._rejection(needs, nodes, int(rows[place])) or _NONE
            for text in rejection.reasons:
                found.setdefault((text, rejection.resolvable), []).append(place)
        return [
            Reason(text, np.isin(np.arange(len(rows)), places), resolvable)
            for (text, resolvable), places in sorted(found.items())
        ]

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        needs = self._needs(pod)
        if isinstance(needs, str) or not _asks(pod):
            return ()
        return None if any(True for _ in _concerned(needs, nodes, rows)) else ()

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        needs = self._needs(pod)
        if not _asks(pod) or isinstance(needs, str):
            return None
        plain = self._plain_score(pod, nodes)

        def score(rows: Rows) -> Amounts:
            found = plain(rows)
            for place in _concerned(needs, nodes, rows):
                row = int(rows[place])
                found[place] = self._placement(needs, nodes, row).score(_use(nodes, row))
            return found

        return score

    def reserve(self, pod: PodClass, nodes: NodeColumns, row: int) -> NUMAReservation | None:
        needs = self._needs(pod)
        if not _asks(pod) or isinstance(needs, str):
            return None
        placement = self._placement(needs, nodes, row)
        found = placement.reserve()
        if isinstance(found, NUMARejection):
            reasons = ", ".join(found.reasons)
            raise ValueError(f"{nodes.name(row)}: {reasons}")  # noqa: TRY004 - an outcome
        policy, is_required = placement.bind_policy, placement.is_required
        return numa_reservation(found, pod.numa, policy, is_required=is_required)

    def usage(self, reservation: NUMAReservation, pod: PodUsage) -> PodUsage:
        return pod._replace(numa=reservation.allocation)

    def services(
        self, nodes: NodeColumns
    ) -> Mapping[str, Callable[[Mapping[str, str]], dict[str, object]]]:
        """``/nodes/:node``: what a node has, and what pods have of it."""

        def node(given: Mapping[str, str]) -> dict[str, object]:
            row = nodes.row(given["node"])
            if row is None:
                raise LookupError(f"there is no node {given['node']}")
            machine, had = nodes.numa.machine(row), nodes.numa.allocation(row)
            return {
                "cpus": cpuset.render(machine.cpus.cpus),
                "reservedCPUs": cpuset.render(machine.reserved),
                "allocatedCPUs": cpuset.render(had.taken_cpus()),
                "numaTopologyPolicy": machine.topology_policy.value,
                "cpuBindPolicy": machine.bind_policy.value,
                "allocatable": {str(zone): dict(has) for zone, has in machine.zones.items()},
                "allocated": {str(zone): dict(has) for zone, has in had.zones(machine).items()},
                "ignored": list(nodes.numa.ignored(row)),
            }

        return {"/nodes/:node": node}

    def _needs(self, pod: PodClass) -> PodNeeds | str:
        return pod_needs(dict(pod.amounts), pod.numa, self._settings)

    def _placement(self, needs: PodNeeds, nodes: NodeColumns, row: int) -> NodePlacement:
        machine, had = nodes.numa.machine(row), nodes.numa.allocation(row)
        return NodePlacement(needs, machine, had, self._settings)

    def _rejection(self, needs: PodNeeds, nodes: NodeColumns, row: int) -> NUMARejection | None:
        placement = self._placement(needs, nodes, row)
        found = placement.rejection(_use(nodes, row))
        return placement.shortage() if found is None else found

    def _plain_score(self, pod: PodClass, nodes: NodeColumns) -> Score:
        """As NodeResourcesFit scores, by what pods request alone."""
        weights = self._settings.scorer.weights
        strategy: ResourceScore = least_allocated
        if self._settings.scorer.strategy is most_taken:
            strategy = most_allocated
        asked, resources = dict(pod.amounts), nodes.resources
        counted = [
            (resources.number(name), float(asked.get(name, 0)), float(weight))
            for name, weight in weights.items()
            if asked.get(name) or name in ALWAYS
        ]

        def score(rows: Rows) -> Amounts:
            total, all_weights = np.zeros(len(rows)), np.zeros(len(rows))
            for number, amount, weight in counted:
                has = resources.allocatable[number][rows]
                here = weight * (has > 0)
                total += here * strategy(resources.requested[number][rows] + amount, has)
                all_weights += here
            return np.floor(total / np.maximum(all_weights, 1.0))

        return score


def _asks(pod: PodClass) -> bool:
    return any(amount for _, amount in pod.amounts)


def _concerned(needs: PodNeeds, nodes: NodeColumns, rows: Rows) -> Iterator[int]:
    """The places of those rows whose NUMA nodes or CPUs decide anything about a pod."""
    if needs.binds or needs.says.topology_policy:
        return iter(range(len(rows)))
    return iter(np.flatnonzero(nodes.numa.has_rules[rows]).tolist())


def _use(nodes: NodeColumns, row: int) -> NodeUse:
    resources = nodes.resources
    numbers = range(len(resources.names))
    return NodeUse(
        {resources.names[one]: int(resources.allocatable[one, row]) for one in numbers},
        {resources.names[one]: int(resources.requested[one, row]) for one in numbers},
    )
