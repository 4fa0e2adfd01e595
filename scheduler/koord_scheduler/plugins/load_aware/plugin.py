"""LoadAwareScheduling: nodes by what is used of them, in place of what is requested. No IO.

Formulas are Koordinator's (pkg/scheduler/plugins/loadaware).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import mul
from typing import Any, ClassVar

import numpy as np

from koord_scheduler.plugin import (
    MAX_SCORE,
    Filter,
    Limit,
    Plugin,
    Reason,
    RowFilter,
    RowScore,
    Score,
    Service,
    Shortage,
    first_reasons,
)
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.load_aware.load_document import load_document
from koord_scheduler.plugins.load_aware.load_node import thresholds
from koord_scheduler.plugins.load_aware.load_table import LoadTable
from koord_scheduler.plugins.load_aware.pod_load import LOAD
from koord_scheduler.plugins.load_aware.row_load import used_per_cent
from koord_scheduler.plugins.load_aware.settings import LoadSettings
from koord_scheduler.state.arrays import Amounts, Mask, Rows, picked_lines
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.resource_scores import least_allocated, least_of_one

EXPIRED = "node(s) nodeMetric expired"


class LoadAwareScheduling(Plugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "LoadAwareScheduling"
    helped_by: ClassVar[str] = "nodes that report or use less, or thresholds that are higher"
    reads_labels: ClassVar[bool] = False

    def __init__(self, settings: LoadSettings) -> None:
        self._settings = settings

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(NodeLoads).table(self._settings)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if pod.of(LOAD).is_daemon:
            return None
        table, estimate = self._table(nodes), self._estimate(pod, nodes)
        lines = self._lines(pod.of(LOAD).is_prod)

        def can_run(rows: Rows) -> Mask:
            used = picked_lines(table.sums[lines], rows) + estimate
            found: Mask = np.logical_and.reduce(used <= picked_lines(table.limits[lines], rows))
            return found

        return can_run

    def filter_row(self, pod: PodClass, nodes: ClusterState) -> RowFilter | None:
        table, lines = self._table(nodes), self._lines(pod.of(LOAD).is_prod)
        amounts = list(enumerate(self._estimate(pod, nodes).ravel().tolist(), lines.start))

        def can_run(row: int) -> bool:
            used, limit = table.sums.item, table.limits.item
            for line, more in amounts:  # noqa: SIM110 - twice as fast as a generator
                if used(line, row) + more > limit(line, row):
                    return False
            return True

        return can_run

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        return ()  # what pods use stays reported for a while after they have left

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        if pod.of(LOAD).is_daemon:
            return []
        table, lines = self._table(nodes), self._lines(pod.of(LOAD).is_prod)
        limits = table.limits[lines, rows]
        used = table.sums[lines, rows] + self._estimate(pod, nodes)
        found = [Reason(EXPIRED, limits[0] == -np.inf)]
        aggregated = table.aggregated[int(pod.of(LOAD).is_prod)][rows]
        for number, resource in enumerate(self._settings.resources):
            lacking, capacity = used[number] - limits[number], table.capacity[number][rows]
            shortage = Shortage(resource, lacking, capacity)
            note = partial(self._note, pod, nodes, rows, number, used[number])
            for word, where in (("usage", ~aggregated), ("aggregated usage", aggregated)):
                text = f"node(s) {resource} {word} exceed threshold"
                is_over = (lacking > 0) & where & (limits[number] != -np.inf)
                found.append(Reason(text, is_over, shortage=shortage, note=note))
        return first_reasons(found)

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        table, estimate, settings = self._table(nodes), self._estimate(pod, nodes), self._settings
        apart = settings.scores_prod_apart and pod.of(LOAD).is_prod
        lines = self._lines(apart, of_score=True)
        weights = np.array(settings.weights, np.float64)
        dominant = float(settings.dominant_weight)
        all_weights = float(weights.sum()) + dominant

        def score(rows: Rows) -> Amounts:
            used = picked_lines(table.sums[lines], rows) + estimate
            scores = least_allocated(used, picked_lines(table.scored, rows))
            total: Amounts = weights @ scores
            if dominant:
                total += dominant * np.minimum(scores.min(axis=0), MAX_SCORE)
            total /= all_weights
            return np.floor(total, out=total)

        return score

    def score_row(self, pod: PodClass, nodes: ClusterState) -> RowScore | None:
        table, settings = self._table(nodes), self._settings
        apart = settings.scores_prod_apart and pod.of(LOAD).is_prod
        start, dominant = self._lines(apart, of_score=True).start, settings.dominant_weight
        all_weights = sum(settings.weights) + dominant
        amounts = list(enumerate(self._estimate(pod, nodes).ravel().tolist()))

        def score(row: int) -> float:
            used, has = table.sums.item, table.scored.item
            scores = [least_of_one(used(start + n, row) + more, has(n, row)) for n, more in amounts]
            total = sum(map(mul, scores, settings.weights))
            if dominant:
                total += dominant * min((*scores, MAX_SCORE))
            return float(total // all_weights)

        return score

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """Return the pages about a node, below Koordinator's path."""

        def node(given: Mapping[str, str]) -> Any:
            row = nodes.row(given["node"])
            if row is None or row not in nodes.use(NodeLoads).nodes:
                raise LookupError(f"there is no node {given['node']}")
            return load_document(nodes.use(NodeLoads), self._table(nodes), row)

        return {"/node/:node": node}

    def _table(self, nodes: ClusterState) -> LoadTable:
        return nodes.use(NodeLoads).table(self._settings)

    def _lines(self, for_prod: bool, *, of_score: bool = False) -> slice:
        """The lines of ``LoadTable.sums``, and for filters of ``limits``."""
        width = len(self._settings.resources)
        first = width * (2 * of_score + for_prod)
        return slice(first, first + width)

    def _estimate(self, pod: PodClass, nodes: ClusterState) -> Amounts:
        """Estimate the usage of one more pod of the class."""
        return np.array([self._table(nodes).estimator.usage(pod.of(LOAD))], np.float64).T

    def _note(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, number: int, used: Amounts, at: int
    ) -> str:
        """Explain the rejection of one of the rows, in numbers."""
        node = nodes.use(NodeLoads).nodes[int(rows[at])]
        found = thresholds(node, self._settings, for_prod=pod.of(LOAD).is_prod)
        resource = self._settings.resources[number]
        usage = used_per_cent(float(used[at]), node.allocatable[resource])
        return f"{resource} usage {usage} % > threshold {found.per_cent[number]} %"
