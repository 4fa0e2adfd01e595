"""NodeNUMAResource: pods get CPUs of their own, and resources from the same NUMA nodes. No IO.

What a pod gets of one node is decided in ``koord_scheduler.plugins.node_numa_resource``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from koord_model import cpuset
from koord_model.keys import CPU, MEMORY

from koord_scheduler.extension_points.kept_room import NO_ROOM, TAKES_ROOM, KeptRoom, Lacks
from koord_scheduler.extension_points.topology_hints import Mask as NUMAMask
from koord_scheduler.extension_points.topology_hints import ProviderHints, TopologyHintProvider
from koord_scheduler.plugin import (
    ANOTHER_POD,
    CannotReserve,
    Filter,
    Limit,
    Plugin,
    PreFilterResult,
    Reason,
    RowFilter,
    RowScore,
    Score,
    Service,
    filter_by_reasons,
)
from koord_scheduler.plugins.node_numa_resource.answer import NUMAAnswer, numa_answer
from koord_scheduler.plugins.node_numa_resource.assumed_numa import (
    AssumedNUMA,
    numa_reservation,
)
from koord_scheduler.plugins.node_numa_resource.columns import NUMAColumns
from koord_scheduler.plugins.node_numa_resource.kept_placement import (
    KeptPlacement,
    kept_numa,
    kept_placement,
)
from koord_scheduler.plugins.node_numa_resource.node_allocation import NodeAllocation
from koord_scheduler.plugins.node_numa_resource.occupied_machine import OccupiedMachine
from koord_scheduler.plugins.node_numa_resource.placement import (
    INSUFFICIENT_CPU,
    NodePlacement,
    NUMARejection,
)
from koord_scheduler.plugins.node_numa_resource.pod_needs import NUMASettings, PodNeeds, pod_needs
from koord_scheduler.plugins.node_numa_resource.pod_parts import NUMA_ALLOCATION, NUMA_NEEDS
from koord_scheduler.plugins.node_numa_resource.pod_requirements import NUMARequirements
from koord_scheduler.state.arrays import Amounts, Mask, Rows, picked
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.resource_scores import (
    OF_ONE,
    least_allocated,
    least_of_both,
    most_allocated,
    most_taken,
)
from koord_scheduler.state.resources import ALWAYS

_CPU = ALWAYS.index(CPU)
_NOWHERE: Rows = np.zeros(0, np.intp)
_MOST_ANSWERS = 1 << 16
_MOST_NEEDS = 1 << 12


class NodeNUMAResource(Plugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "NodeNUMAResource"
    helped_by: ClassVar[str] = "pods that end and free CPUs, or NUMA nodes with more"
    helped_by_nodes: ClassVar[str] = "nodes with the CPUs and NUMA nodes that it needs"
    reads_labels: ClassVar[bool] = False
    serves_stand_ins: ClassVar[bool] = True

    def __init__(self, settings: NUMASettings | None = None) -> None:
        self._settings = settings or NUMASettings()
        self._providing: list[Plugin] = []
        self._keeping: list[Plugin] = []
        self._known_needs = lru_cache(_MOST_NEEDS)(self._find_needs)
        self._answer = lru_cache(_MOST_ANSWERS)(self._find_answer)

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(NUMAColumns)

    def join(self, plugins: Sequence[Plugin]) -> None:
        self._providing = [
            plugin for plugin in plugins if type(plugin).topology_hints is not Plugin.topology_hints
        ]
        self._keeping = [
            plugin for plugin in plugins if type(plugin).kept_room is not Plugin.kept_room
        ]

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        needs = self._needs(pod)
        return PreFilterResult(needs if isinstance(needs, str) else "", cure=ANOTHER_POD)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not _asks(pod):
            return None
        needs, find_reasons = self._needs(pod), filter_by_reasons(self, pod, nodes)

        def can_run(rows: Rows) -> Mask:
            if isinstance(needs, str) or len(_concerned(needs, nodes, rows)):
                return find_reasons(rows)
            return np.ones(len(rows), np.bool_)

        return can_run

    def filter_row(self, pod: PodClass, nodes: ClusterState) -> RowFilter | None:
        decides, can_run = self._row_decides(pod, nodes), self.filter(pod, nodes)
        if decides is None or can_run is None:
            return None
        return lambda row: not decides(row) or bool(can_run(np.array([row]))[0])

    def _row_decides(self, pod: PodClass, nodes: ClusterState) -> RowFilter | None:
        """A test of rows: NUMA nodes or CPUs decide something there; ``None`` if on all."""
        needs = self._needs(pod)
        if isinstance(needs, str) or needs.binds or needs.says.topology_policy:
            return None
        columns = nodes.use(NUMAColumns)
        return lambda row: bool(columns.rules) and columns.has_rules.item(row)

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        if not _asks(pod):
            return []
        needs = self._needs(pod)
        if isinstance(needs, str):
            return [Reason(needs, np.ones(len(rows), np.bool_), resolvable=False)]

        def nearest(at: int) -> str:
            return self._placement(needs, pod, nodes, int(rows[at])).nearest()

        found: dict[tuple[str, bool], Mask] = {}
        for answer, places in self._answers(needs, pod, nodes, rows):
            for rejection, at in _rejections(answer, nodes, rows, places):
                for text in rejection.reasons:
                    key = text, rejection.resolvable
                    found.setdefault(key, np.zeros(len(rows), np.bool_))[at] = True
        return [
            Reason(text, found[text, resolvable], resolvable, note=nearest)
            for text, resolvable in sorted(found)
        ]

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        needs = self._needs(pod)
        if isinstance(needs, str) or not _asks(pod):
            return ()
        return None if len(_concerned(needs, nodes, rows)) else ()

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        needs = self._needs(pod)
        if not _asks(pod) or isinstance(needs, str):
            return None
        whole_node = self._score_of_node(pod, nodes)

        def score(rows: Rows) -> Amounts:
            if not len(_concerned(needs, nodes, rows)):
                return whole_node(rows, None)
            taken = nodes.resources.requested[_CPU][rows]
            asked = np.full(len(rows), float(dict(pod.amounts).get(CPU, 0)))
            known: list[tuple[Rows, int]] = []
            for answer, places in self._answers(needs, pod, nodes, rows):
                if answer.score is not None:
                    known.append((places, answer.score))
                    continue
                asked[places] = answer.counted.asked
                if answer.counted.instead is None:
                    taken[places] += answer.counted.more
                else:
                    taken[places] = answer.counted.instead
            found = whole_node(rows, taken + asked)
            for places, one in known:
                found[places] = one
            return found

        return score

    def score_row(self, pod: PodClass, nodes: ClusterState) -> RowScore | None:
        decides, of_many = self._row_decides(pod, nodes), self.score(pod, nodes)
        if decides is None or of_many is None:
            return None
        whole_node = self._score_of_whole_row(pod, nodes)

        def score(row: int) -> float:
            return float(of_many(np.array([row]))[0]) if decides(row) else whole_node(row)

        return score

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> AssumedNUMA | None:
        needs = self._needs(pod)
        if not _asks(pod) or isinstance(needs, str):
            return None
        if not _concerns(needs, nodes, row) and not pod.of(NUMA_NEEDS).has_status:
            return None
        placement, _ = self._final_placement(needs, pod, nodes, row)
        found = placement.reserve()
        if isinstance(found, NUMARejection):
            raise CannotReserve(", ".join(found.reasons))
        policy, is_required = placement.bind_policy, placement.is_required
        return numa_reservation(found, pod.of(NUMA_NEEDS), policy, is_required=is_required)

    def topology_affinity(self, pod: PodClass, nodes: ClusterState, row: int) -> NUMAMask | None:
        needs = self._needs(pod)
        if isinstance(needs, str):
            return None
        placement, kept = self._final_placement(needs, pod, nodes, row)
        mask = placement.affinity
        if mask is None or isinstance(mask, NUMARejection):
            return None
        providers = self._providers(pod, nodes)
        return None if any(provider.rejection(row, mask, kept) for provider in providers) else mask

    def kept_room_check(
        self, pod: PodClass, nodes: ClusterState, row: int, kept: Sequence[KeptRoom]
    ) -> Lacks | None:
        needs = self._needs(pod)
        if not any(room.has_more for room in kept) or not _asks(pod) or isinstance(needs, str):
            return None
        if not _concerns(needs, nodes, row):
            return None
        missing = (
            tuple(usage for room in kept for usage in room.kept) if nodes.lacks_pods(row) else ()
        )

        def lacks(room: KeptRoom | None) -> str:
            room = (room or NO_ROOM)._replace(missing=missing)
            placement, used = self._beside(needs, pod, nodes, row, room)
            found, mask = placement.reserve(), placement.affinity
            if isinstance(found, NUMARejection):
                return ", ".join(found.reasons)
            if not placement.is_strict or not isinstance(mask, NUMAMask):
                return ""
            providers = self._providers(pod, nodes)
            return ", ".join(
                filter(None, (provider.rejection(row, mask, used) for provider in providers))
            )

        return lacks

    def usage(self, reservation: AssumedNUMA, pod: PodUsage) -> PodUsage:
        return pod.with_part(NUMA_ALLOCATION, reservation.allocation)

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """``/nodes/:node``: what a node has, and what pods have of it."""

        def node(given: Mapping[str, str]) -> dict[str, object]:
            row = nodes.row(given["node"])
            if row is None:
                raise LookupError(f"there is no node {given['node']}")
            machine, had = (
                nodes.use(NUMAColumns).machine(row),
                nodes.use(NUMAColumns).allocation(row),
            )
            return {
                "cpus": cpuset.render(machine.cpus.cpus),
                "reservedCPUs": cpuset.render(machine.reserved),
                "allocatedCPUs": cpuset.render(had.taken_cpus()),
                "numaTopologyPolicy": machine.topology_policy.value,
                "cpuBindPolicy": machine.bind_policy.value,
                "allocatable": {str(zone): dict(has) for zone, has in machine.zones.items()},
                "allocated": {str(zone): dict(has) for zone, has in had.zones(machine).items()},
                "ignored": list(nodes.use(NUMAColumns).ignored(row)),
            }

        return {"/nodes/:node": node}

    def _needs(self, pod: PodClass) -> PodNeeds | str:
        return self._known_needs(pod.amounts, pod.of(NUMA_NEEDS))

    def _find_needs(
        self, amounts: tuple[tuple[str, int], ...], says: NUMARequirements
    ) -> PodNeeds | str:
        return pod_needs(dict(amounts), says, self._settings)

    def _find_answer(
        self,
        needs: PodNeeds,
        occupied_machine: OccupiedMachine,
        others: tuple[ProviderHints, ...] = (),
    ) -> NUMAAnswer:
        return numa_answer(needs, occupied_machine, self._settings, others)

    def _providers(self, pod: PodClass, nodes: ClusterState) -> list[TopologyHintProvider]:
        found = (plugin.topology_hints(pod, nodes) for plugin in self._providing)
        return [one for one in found if one is not None]

    def _placement(
        self, needs: PodNeeds, pod: PodClass, nodes: ClusterState, row: int
    ) -> NodePlacement:
        machine, had = nodes.use(NUMAColumns).machine(row), nodes.use(NUMAColumns).allocation(row)
        others = [provider.hints(row) for provider in self._providers(pod, nodes)]
        return NodePlacement(needs, machine, had, self._settings, others)

    def _final_placement(
        self, needs: PodNeeds, pod: PodClass, nodes: ClusterState, row: int
    ) -> KeptPlacement:
        """Return the placement with reservations' present share for the pod."""
        for one in self._keeping:
            kept = one.kept_room(pod, nodes, row)
            if kept.has_more:
                return self._beside(needs, pod, nodes, row, kept)
        return self._placement(needs, pod, nodes, row), NO_ROOM

    def _beside(
        self, needs: PodNeeds, pod: PodClass, nodes: ClusterState, row: int, kept: KeptRoom
    ) -> KeptPlacement:
        """Beside what pods and reservations have of a node, with what is ``kept`` for the pod."""
        machine, providers = nodes.use(NUMAColumns).machine(row), self._providers(pod, nodes)
        had = NodeAllocation(nodes.use(NUMAColumns).allocation(row))
        for missing in kept.missing:
            had.add(missing.of(NUMA_ALLOCATION))
        for allocation in kept_numa(kept).allocations:
            had.remove(allocation)

        def place(kept: KeptRoom, near: NUMAMask | None) -> NodePlacement:
            others = [provider.hints(row, kept) for provider in providers]
            return NodePlacement(needs, machine, had, self._settings, others, kept_numa(kept), near)

        def agree(mask: NUMAMask, kept: KeptRoom) -> bool:
            return not any(provider.rejection(row, mask, kept) for provider in providers)

        return kept_placement(kept, machine.cpus, place, agree)

    def _answers(
        self, needs: PodNeeds, pod: PodClass, nodes: ClusterState, rows: Rows
    ) -> Iterator[tuple[NUMAAnswer, Rows]]:
        """The answers for rows whose NUMA nodes or CPUs decide anything, with their places."""
        places = _concerned(needs, nodes, rows)
        if not len(places):
            return
        machines, which = nodes.use(NUMAColumns).occupied(rows[places])
        places = places[np.argsort(which, kind="stable")]
        providers = self._providers(pod, nodes)
        start = 0
        for one, count in zip(machines, np.bincount(which).tolist(), strict=True):
            here = places[start : start + count]
            start += count
            if providers and (needs.says.topology_policy or one.machine.topology_policy):
                yield from self._with_providers(needs, one, providers, rows, here)
            else:
                yield self._answer(needs, one), here

    def _with_providers(
        self,
        needs: PodNeeds,
        occupied_machine: OccupiedMachine,
        providers: Sequence[TopologyHintProvider],
        rows: Rows,
        places: Rows,
    ) -> Iterator[tuple[NUMAAnswer, Rows]]:
        """The answers for rows that are alike but for what providers have there."""
        found: dict[NUMAAnswer, list[int]] = {}
        for place in places.tolist():
            row = int(rows[place])
            answer = self._answer(
                needs, occupied_machine, tuple(other.hints(row) for other in providers)
            )
            mask = answer.affinity
            reasons = () if mask is None else [other.rejection(row, mask) for other in providers]
            if any(reasons):
                rejection = NUMARejection(tuple(filter(None, reasons)), resolvable=True)
                answer = answer._replace(rejection=rejection, score=None)
            found.setdefault(answer, []).append(place)
        for answer, listed in found.items():
            yield answer, np.array(listed)

    def _score_of_node(
        self, pod: PodClass, nodes: ClusterState
    ) -> Callable[[Rows, Amounts | None], Amounts]:
        """As NodeResourcesFit scores, by what pods request alone; or with so much CPU taken."""
        scorer, resources = self._settings.scorer, nodes.resources
        strategy = most_allocated if scorer.strategy is most_taken else least_allocated
        requests = dict(pod.amounts)
        names = [name for name in scorer.weights if requests.get(name) or name in ALWAYS]
        columns = resources.columns(names)
        asked = np.array([[float(requests.get(name, 0))] for name in names])
        of_each = [scorer.weights[name] for name in names]
        weights = np.array(of_each, np.float64).reshape(-1, 1)
        is_usual = names == [CPU, MEMORY] and strategy is least_allocated

        def score(rows: Rows, cpu: Amounts | None) -> Amounts:
            if is_usual and cpu is None and not (room := resources.room().of(rows)).lacks:
                left = room.divisors - room.requested
                left -= asked
                return least_of_both(left, room.divisors, of_each)
            has = picked(resources.allocatable, columns.now, rows)
            taken = picked(resources.requested, columns.now, rows)
            taken += asked
            if cpu is not None:
                taken[columns.now == _CPU] = cpu
            if has.size and has.min() > 0:  # as on nearly all nodes
                mean: Amounts = weights[:, 0] @ strategy(taken, has)
                mean /= max(float(weights.sum()), 1.0)
                return np.floor(mean, out=mean)
            counted = weights * (has > 0)
            total = (counted * strategy(taken, has)).sum(axis=0)
            found: Amounts = np.floor(total / np.maximum(counted.sum(axis=0), 1.0))
            return found

        return score

    def _score_of_whole_row(self, pod: PodClass, nodes: ClusterState) -> RowScore:
        """As ``_score_of_node``, by what pods request."""
        scorer, resources = self._settings.scorer, nodes.resources
        strategy = OF_ONE[most_allocated if scorer.strategy is most_taken else least_allocated]
        requests = dict(pod.amounts)
        names = [name for name in scorer.weights if requests.get(name) or name in ALWAYS]
        columns = resources.columns(names)
        parts = [(float(requests.get(name, 0)), scorer.weights[name]) for name in names]

        def score(row: int) -> float:
            has_of, taken_of = resources.allocatable.item, resources.requested.item
            total, weights = 0.0, 0
            for column, (amount, weight) in zip(columns.listed, parts, strict=True):
                has = has_of(column, row)
                if has > 0:
                    total += weight * strategy(taken_of(column, row) + amount, has)
                    weights += weight
            return total // max(weights, 1)

        return score


def _asks(pod: PodClass) -> bool:
    """Return True unless a class asks for nothing, or takes the room of pods as it is."""
    return not pod.of(TAKES_ROOM) and any(amount for _, amount in pod.amounts)


def _concerns(needs: PodNeeds, nodes: ClusterState, row: int) -> bool:
    """Return True if NUMA nodes or CPUs of a row decide anything about a pod."""
    columns = nodes.use(NUMAColumns)
    decides = bool(columns.rules) and columns.has_rules.item(row)
    return decides or needs.binds or bool(needs.says.topology_policy)


def _concerned(needs: PodNeeds, nodes: ClusterState, rows: Rows) -> Rows:
    """The places of those rows whose NUMA nodes or CPUs decide anything about a pod."""
    if needs.binds or needs.says.topology_policy:
        return np.arange(len(rows))
    columns = nodes.use(NUMAColumns)
    return np.flatnonzero(columns.has_rules[rows]) if columns.rules else _NOWHERE


def _rejections(
    answer: NUMAAnswer, nodes: ClusterState, rows: Rows, places: Rows
) -> Iterator[tuple[NUMARejection, Rows]]:
    """Reasons of rows at these places, for which an answer holds, against the pod."""
    if answer.cpu is not None:
        resources, at = nodes.resources, rows[places]
        fits = answer.cpu.fits(resources.allocatable[_CPU][at], resources.requested[_CPU][at])
        yield INSUFFICIENT_CPU, places[~fits]
        places = places[fits]
    if answer.rejection is not None:
        yield answer.rejection, places
