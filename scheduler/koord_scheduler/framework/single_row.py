"""Answers of plugins about one row at a time, in plain numbers. No IO."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from koord_scheduler.framework.class_plugin import ClassPlugin
from koord_scheduler.plugin import Filter, RowFilter, RowScore, Score
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass


class SingleRow:
    """The filters and scores of some plugins for one row; as those of many rows say it."""

    def __init__(self, pod: PodClass, nodes: ClusterState, answers: Iterable[ClassPlugin]) -> None:
        self._filters: list[RowFilter] = []
        self._scores: list[tuple[int, RowScore]] = []
        self.relative: list[RowScore] = []
        """The scores of plugins that normalize them."""
        for answer in answers:
            plugin = answer.plugin
            if answer.filter is not None:
                self._filters.append(plugin.filter_row(pod, nodes) or row_filter(answer.filter))
            if answer.score is not None:
                score = plugin.score_row(pod, nodes) or row_score(answer.score)
                if plugin.normalizes:
                    self.relative.append(score)
                else:
                    self._scores.append((answer.weight, score))

    def ask(self, row: int, local: float) -> float | None:
        """The weighted sum of scores, added to ``local``; ``None`` where pods cannot run."""
        for can_run in self._filters:
            if not can_run(row):
                return None
        for weight, score in self._scores:
            local += weight * score(row)
        return local


def row_filter(can_run: Filter) -> RowFilter:
    """A filter of many rows, asked about one."""
    return lambda row: bool(can_run(np.array([row]))[0])


def row_score(score: Score) -> RowScore:
    """A score of many rows, asked about one."""
    return lambda row: float(score(np.array([row]))[0])
