"""What all plugins say about a class of pods, kept until nodes change. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.plugin import AcrossNodes, Filter, Plugin, Score
from koord_scheduler.framework.profile import EnabledPlugin


@dataclass(frozen=True, slots=True)
class _ClassPlugin:
    """A plugin's answer about the class."""

    plugin: Plugin
    weight: int
    filters: bool
    filter: Filter | None
    score: Score | None
    across: AcrossNodes | None


class ClassScores:
    """Which nodes the pods of a class can run on, and how good those are.

    Only rows that changed are asked about again. The result is that of asking about all rows.
    """

    def __init__(self, pod: PodClass, nodes: NodeColumns, plugins: Sequence[EnabledPlugin]) -> None:
        self._pod = pod
        self._nodes = nodes
        answers = [
            _ClassPlugin(
                plugin,
                weight,
                filters,
                plugin.filter(pod, nodes) if filters else None,
                plugin.score(pod, nodes) if weight else None,
                plugin.across(pod, nodes),
            )
            for plugin, filters, weight in plugins
        ]
        self._across = [(one, one.across) for one in answers if one.across]
        self._plugins = [one for one in answers if one.filter or one.score]
        self._relative = [one for one in self._plugins if one.score and one.plugin.normalizes]
        self._seen = -1
        self._generation = -1
        self._depends: tuple[Hashable, ...] = ()
        self._fits: Mask = np.zeros(0, np.bool_)
        self._local: Amounts = np.zeros(0)
        self._raw: list[Amounts] = []

    def feasible(self) -> Rows:
        """The rows of the nodes that a pod of the class can run on."""
        self._refresh()
        rows = np.flatnonzero(self._fits)
        for one, across in self._across:
            fits = across.filter(rows) if one.filters else None
            if fits is not None:
                rows = rows[fits]
        return rows

    def totals(self, rows: Rows) -> Amounts:
        """The weighted scores of feasible rows; they depend on which rows these are."""
        self._refresh()
        return self._totals(rows)

    def _totals(self, rows: Rows) -> Amounts:
        total = self._local[rows]
        for one, raw in zip(self._relative, self._raw, strict=True):
            total += one.weight * one.plugin.normalize(raw[rows])
        for one, across in self._across:
            scores = across.score(rows) if one.weight else None
            if scores is not None:
                total += one.weight * scores
        return total

    def best(self, rows: Rows) -> int | None:
        """Of feasible rows the one with the highest score; ``None`` where there is none."""
        if not len(rows):
            return None
        return int(rows[(self._totals(rows) + self._nodes.tie_break[rows]).argmax()])

    def rejections(self, row: int) -> list[str]:
        """The names of all plugins that keep the class off a node."""
        at = np.array([row])
        alone = ((one.plugin.name, one.filter(at)) for one in self._plugins if one.filter)
        across = (
            (one.plugin.name, answer.filter(at)) for one, answer in self._across if one.filters
        )
        return [name for name, fits in (*alone, *across) if fits is not None and not fits[0]]

    def scores(self, rows: Rows) -> dict[str, Amounts]:
        """The weighted score of each plugin for feasible rows, by its name."""
        found = {
            one.plugin.name: one.weight * one.plugin.normalize(one.score(rows))
            for one in self._plugins
            if one.score is not None
        }
        for one, across in self._across:
            scores = across.score(rows) if one.weight else None
            if scores is not None:
                found[one.plugin.name] = one.weight * scores
        return found

    def _refresh(self) -> None:
        nodes = self._nodes
        changed: Rows | None = None
        depends = tuple(one.plugin.depends_on(self._pod, nodes) for one in self._plugins)
        if self._generation == nodes.generation and depends == self._depends:
            changed = nodes.journal.changed_since(self._seen)
        if changed is None:
            self._generation, self._depends = nodes.generation, depends
            length = len(nodes)
            self._fits, self._local = np.zeros(length, np.bool_), np.zeros(length)
            self._raw = [np.zeros(length) for _ in self._relative]
            changed = np.arange(length)
        self._seen = nodes.journal.position
        if len(changed):
            self._update(changed)

    def _update(self, rows: Rows) -> None:
        fits = self._nodes.is_node[rows]
        local = np.zeros(len(rows))
        for one in self._plugins:
            if one.filter is not None:
                fits &= one.filter(rows)
            if one.score is not None and not one.plugin.normalizes:
                local += one.weight * one.score(rows)
        for one, raw in zip(self._relative, self._raw, strict=True):
            if one.score is not None:
                raw[rows] = one.score(rows)
        self._fits[rows], self._local[rows] = fits, local
