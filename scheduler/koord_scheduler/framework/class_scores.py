"""What all plugins say about a class of pods, kept until nodes change. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.framework.plugin import (
    AcrossNodes,
    Filter,
    Limit,
    Plugin,
    PreFilterResult,
    Reason,
    Score,
)
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


class PluginReasons(NamedTuple):
    """Why a plugin rejects nodes; ``rejects`` says of each row whether it does."""

    plugin: str
    reasons: list[Reason]
    rejects: Mask


class PodLimits(NamedTuple):
    """How the filters of a class depend on the pods of some rows.

    ``is_fixed``: rows that a filter rejects whatever pods are on them. ``is_resolvable``: those
    where the first plugin that rejects them, if any, may let them through once pods have left.
    ``limits`` are all other filters, unless not all of them can be said so (``are_all``).
    """

    is_fixed: Mask
    is_resolvable: Mask
    limits: list[Limit]
    are_all: bool


class ClassScores:
    """Which nodes the pods of a class can run on, and how good those are.

    Only rows that changed are asked about again. The result is that of asking about all rows.
    """

    def __init__(self, pod: PodClass, nodes: NodeColumns, plugins: Sequence[EnabledPlugin]) -> None:
        self.pod = pod
        self.nodes = nodes
        self._answers = [
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
        self._across = [(one, one.across) for one in self._answers if one.across]
        self._plugins = [one for one in self._answers if one.filter or one.score]
        self._relative = [one for one in self._plugins if one.score and one.plugin.normalizes]
        # Most plugins depend on nothing but the row.
        self._depending = [
            one.plugin
            for one in self._plugins
            if type(one.plugin).depends_on is not Plugin.depends_on
        ]
        self._named = _named_nodes(result for _, result in self.pre_filter())
        self._seen = -1
        self._generation = -1
        self._depends: tuple[Hashable, ...] = ()
        self._fits: Mask = np.zeros(0, np.bool_)
        self._local: Amounts = np.zeros(0)
        self._raw: list[Amounts] = []

    @property
    def size(self) -> int:
        """How many bytes it keeps by row."""
        return self._fits.nbytes + self._local.nbytes + sum(raw.nbytes for raw in self._raw)

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
        return int(rows[(self._totals(rows) + self.nodes.tie_break[rows]).argmax()])

    def rejections(self, row: int) -> list[str]:
        """The names of all plugins that keep the class off a node."""
        at = np.array([row])
        alone = ((one.plugin.name, one.filter(at)) for one in self._plugins if one.filter)
        across = (
            (one.plugin.name, answer.filter(at)) for one, answer in self._across if one.filters
        )
        return [name for name, fits in (*alone, *across) if fits is not None and not fits[0]]

    def reasons(self, rows: Rows) -> list[PluginReasons]:
        """Why each plugin rejects those of ``rows`` that it rejects, in the profile's order."""
        return [self._reasons(one, rows) for one in self._answers if one.filters]

    def _reasons(self, one: _ClassPlugin, rows: Rows) -> PluginReasons:
        reasons = one.plugin.reasons(self.pod, self.nodes, rows)
        if one.across is not None:
            reasons = [*reasons, *one.across.reasons(rows)]
        rejects = np.zeros(len(rows), np.bool_)
        for reason in reasons:
            rejects |= reason.rows
        return PluginReasons(one.plugin.name, reasons, rejects)

    def limits(self, rows: Rows, nominated: Sequence[PodUsage] = ()) -> PodLimits:
        """How the filters of the class depend on the pods of these rows, and on nominated ones."""
        is_fixed, rejected = np.zeros((2, len(rows)), np.bool_)
        is_resolvable, found, are_all = np.ones(len(rows), np.bool_), list[Limit](), True
        for one in self._answers:
            if not one.filters or (one.filter is None and one.across is None):
                continue
            reasons = self._reasons(one, rows)
            limits = one.plugin.limits(self.pod, self.nodes, rows, nominated)
            if limits is None:
                are_all = False
            elif not limits:
                is_fixed |= reasons.rejects
            for limit in limits or ():
                is_fixed |= limit.room == -np.inf
                found.append(limit)
            for reason in reasons.reasons:
                if not reason.resolvable:
                    is_resolvable &= rejected | ~reason.rows
            rejected |= reasons.rejects
        return PodLimits(is_fixed, is_resolvable, found, are_all)

    def pre_filter(self) -> list[tuple[str, PreFilterResult]]:
        """What each plugin says before it looks at nodes, by its name, in the profile's order."""
        filtering = (one.plugin for one in self._answers if one.filters)
        return [(plugin.name, plugin.pre_filter(self.pod, self.nodes)) for plugin in filtering]

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
        nodes = self.nodes
        changed: Rows | None = None
        depends = tuple(one.depends_on(self.pod, nodes) for one in self._depending)
        if self._generation == nodes.generation and depends == self._depends:
            changed = nodes.journal.changed_since(self._seen)
        if changed is None:
            self._generation, self._depends = nodes.generation, depends
            length = len(nodes)
            self._fits, self._local = np.zeros(length, np.bool_), np.zeros(length)
            self._raw = [np.zeros(length) for _ in self._relative]
            changed = np.flatnonzero(nodes.is_node)
        if self._named is not None:
            named = [row for row in map(nodes.row, self._named) if row is not None]
            is_named = np.isin(changed, named)
            self._fits[changed[~is_named]] = False  # a row may have another node by now
            changed = changed[is_named]
        self._seen = nodes.journal.position
        if len(changed):
            self._update(changed)

    def _update(self, rows: Rows) -> None:
        fits = self.nodes.is_node[rows]
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


def _named_nodes(results: Iterable[PreFilterResult]) -> frozenset[str] | None:
    """The only nodes that come into question, as for pods of DaemonSets; ``None`` for all."""
    named = [one.nodes for one in results if one.nodes is not None]
    return frozenset.intersection(*named) if named else None
