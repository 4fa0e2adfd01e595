"""NodeResourcesFit: a node has room for what a pod asks for, and how full it is then. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.extension_points.kept_room import TAKES_ROOM
from koord_scheduler.plugin import (
    Dependence,
    Filter,
    Limit,
    Plugin,
    Reason,
    RowFilter,
    RowScore,
    Score,
    Shortage,
)
from koord_scheduler.state.arrays import Amounts, Mask, Rows, both, picked, span
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.resource_scores import (
    OF_ONE,
    ResourceScore,
    least_allocated,
    least_of_both,
)
from koord_scheduler.state.resources import ALWAYS, PODS, SCORED, Request


@dataclass(frozen=True)
class FitSettings:
    """``weights`` are those of resources in the score, ``strategy`` scores one resource.

    With ``skips_zero``, as for RequestedToCapacityRatio, resources that score 0 do not count,
    and scores are rounded in place of cut off. ``ignored_resources`` and ``ignored_groups``
    (the part of a name before "/") are extended resources that others see to.
    """

    weights: Mapping[str, int] = field(default_factory=lambda: {CPU: 1, MEMORY: 1})
    strategy: ResourceScore = least_allocated
    skips_zero: bool = False
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()


class NodeResourcesFit(Plugin):
    """Kubernetes' plugin of that name.

    It leaves resources to DynamicResources that a DeviceClass backs and the node does not have.
    """

    name: ClassVar[str] = "NodeResourcesFit"
    helped_by: ClassVar[str] = "pods that end, or nodes with more room"
    helped_by_nodes: ClassVar[str] = "nodes with more room"
    reads_labels: ClassVar[bool] = False

    def __init__(self, settings: FitSettings | None = None) -> None:
        self._settings = settings or FitSettings()

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        request = self._request(pod, nodes)
        names = [name for name, _ in request]
        resources, columns = nodes.resources, nodes.resources.columns(names)
        amounts = [amount for _, amount in request]
        may_be_backed = nodes.backing.concerns(pod)

        def can_run(rows: Rows) -> Mask:
            at: Rows | slice
            if may_be_backed:
                free, at = _free(pod, nodes, names, columns.now, rows), slice(None)
                lines = list(range(len(names)))
            else:
                free, at, lines = resources.room().free, span(rows), columns.listed
            found: Mask | None = None
            for line, amount in zip(lines, amounts, strict=True):
                found = both(found, free[line][at] >= amount)
            return found if found is not None else np.ones(len(rows), np.bool_)

        return can_run

    def filter_row(self, pod: PodClass, nodes: ClusterState) -> RowFilter | None:
        if nodes.backing.concerns(pod):
            return None
        request, resources = self._request(pod, nodes), nodes.resources
        columns = resources.columns([name for name, _ in request])
        amounts = [amount for _, amount in request]

        def can_run(row: int) -> bool:
            has, taken = resources.allocatable.item, resources.requested.item
            for column, amount in zip(columns.listed, amounts, strict=True):
                if amount > has(column, row) - taken(column, row):
                    return False
            return True

        return can_run

    def least_room(self, pod: PodClass, nodes: ClusterState) -> Request:
        if pod.of(TAKES_ROOM):
            return ()
        backed, known = nodes.backing.backed(pod), nodes.resources.known
        request = self._request(pod, nodes)
        return tuple((known(name), amount) for name, amount in request if name not in backed)

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        request = self._request(pod, nodes)
        names = [name for name, _ in request]
        free = _free(pod, nodes, names, nodes.resources.columns(names).now, rows)
        return [
            Limit(name, room - amount) for (name, amount), room in zip(request, free, strict=True)
        ]

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        resources, found = nodes.resources, list[Reason]()
        request = self._request(pod, nodes)
        names = [name for name, _ in request]
        rooms = _free(pod, nodes, names, nodes.resources.columns(names).now, rows)
        for (name, amount), free in zip(request, rooms, strict=True):
            has = resources.allocatable[resources.column(name), rows]
            lacking = amount - free
            shortage = Shortage(name, lacking, has)
            if name == PODS:
                found.append(Reason("Too many pods", lacking > 0, shortage=shortage))
                continue
            text, is_short, is_too_small = f"Insufficient {name}", lacking > 0, amount > has
            found.append(Reason(text, is_short & ~is_too_small, shortage=shortage))
            found.append(Reason(text, is_short & is_too_small, resolvable=False, shortage=shortage))
        return found

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        resources, settings = nodes.resources, self._settings
        amounts = _scored_amounts(pod)
        names = [name for name in settings.weights if amounts.get(name) or name in ALWAYS]
        columns = resources.columns(names)
        amount = np.array([[float(amounts.get(name, 0))] for name in names]).reshape(-1, 1)
        of_each = [settings.weights[name] for name in names]
        weights = np.array(of_each, np.float64).reshape(-1, 1)
        scored = [(place, SCORED[name]) for place, name in enumerate(names) if name in SCORED]
        is_usual = names == [CPU, MEMORY] and settings.strategy is least_allocated
        may_be_backed = nodes.backing.concerns(pod)
        is_usual &= not settings.skips_zero and not may_be_backed

        def score(rows: Rows) -> Amounts:
            if is_usual and not (room := resources.room().of(rows)).lacks:
                return least_of_both(room.left - amount, room.divisors, of_each)
            has = picked(resources.allocatable, columns.now, rows)
            taken = picked(resources.requested, columns.now, rows)
            for place, column in scored:
                taken[place] = resources.scored[column][span(rows)]
            if may_be_backed:
                nodes.backing.add(pod, names, rows, has, taken)
            taken += amount
            scores = settings.strategy(taken, has)
            counts = weights * ((has > 0) & (scores > 0) if settings.skips_zero else has > 0)
            mean: Amounts = np.add.reduce(counts * scores)
            mean /= np.maximum(np.add.reduce(counts), 1.0)
            return np.floor(mean + 0.5 if settings.skips_zero else mean)

        return score

    def score_row(self, pod: PodClass, nodes: ClusterState) -> RowScore | None:
        resources, settings = nodes.resources, self._settings
        strategy = OF_ONE.get(settings.strategy)
        if nodes.backing.concerns(pod) or strategy is None or settings.skips_zero:
            return None
        amounts = _scored_amounts(pod)
        names = [name for name in settings.weights if amounts.get(name) or name in ALWAYS]
        columns = resources.columns(names)
        parts = [
            (SCORED.get(name), float(amounts.get(name, 0)), settings.weights[name])
            for name in names
        ]

        def score(row: int) -> float:
            has_of, taken_of = resources.allocatable.item, resources.requested.item
            scored_of, total, weights = resources.scored.item, 0.0, 0
            for column, (scored, amount, weight) in zip(columns.listed, parts, strict=True):
                has = has_of(column, row)
                if has > 0:
                    taken = taken_of(column, row) if scored is None else scored_of(scored, row)
                    total += weight * strategy(taken + amount, has)
                    weights += weight
            return total // max(weights, 1)

        return score

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        return nodes.backing.version if nodes.backing.concerns(pod) else None

    def _request(self, pod: PodClass, nodes: ClusterState) -> Request:
        """Return the pod's resources to check, its own place among the node's pods included."""
        return tuple(
            (name, amount)
            for name, amount in nodes.resources.request({**dict(pod.amounts), PODS: 1})
            if not self._is_ignored(name)
        )

    def _is_ignored(self, resource: str) -> bool:
        group, slash, _ = resource.partition("/")
        ignored = self._settings
        return bool(slash) and (
            resource in ignored.ignored_resources or group in ignored.ignored_groups
        )


def _scored_amounts(pod: PodClass) -> dict[str, int]:
    return dict(pod.amounts) | {CPU: pod.scored_cpu, MEMORY: pod.scored_memory}


def _free(
    pod: PodClass, nodes: ClusterState, names: Sequence[str], columns: Rows, rows: Rows
) -> Amounts:
    """Return the rest of resources, by resource and row; inf where a pod gets devices instead."""
    resources = nodes.resources
    free = picked(resources.allocatable, columns, rows)
    if nodes.backing.concerns(pod):
        backed = nodes.backing.backed(pod)
        for place, name in enumerate(names):
            if name in backed:
                free[place][free[place] == 0] = np.inf
    free -= picked(resources.requested, columns, rows)
    return free
