"""Plugins' answers about a class of pods for each node, kept until the node changes. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from koord_scheduler.framework.class_plugin import ClassPlugin, class_plugin
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.single_row import SingleRow
from koord_scheduler.plugin import Plugin, PreFilterResult
from koord_scheduler.state.arrays import Amounts, Mask, Rows, copied, span
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.journal import RowJournal
from koord_scheduler.state.lru_cache import LRUCache
from koord_scheduler.state.pod_class import PodClass


class RowScores:
    """The answers of some plugins about a class, by row.

    ``fits`` says where all of them and those of ``base`` let pods run. Where they do, ``local`` is
    the weighted sum of the scores that depend on the row alone, with the row's ``tie_break``.
    ``relative`` has the others, as they are before they are normalized, and ``uneven`` those of
    them that are not all equal.
    ``generation`` changes when all rows were asked about, and not only those that changed.
    ``classes`` is how many have shared them. ``preferred`` are the nodes that are tried first.
    """

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        journal: RowJournal,
        plugins: Iterable[EnabledPlugin],
        base: RowScores | None = None,
    ) -> None:
        self._pod = pod
        self._nodes = nodes
        self._journal = journal
        self._base = base
        self.answers = [class_plugin(enabled, pod, nodes) for enabled in plugins]
        self._plugins = [answer for answer in self.answers if answer.filter or answer.score]
        self._normalized = [
            answer for answer in self._plugins if answer.score and answer.plugin.normalizes
        ]
        self._depending = [answer.depends_on for answer in self._plugins if answer.depends_on]
        filtering = [answer.plugin for answer in self.answers if answer.filters]
        before = [plugin.pre_filter(pod, nodes) for plugin in filtering]
        self._named = _named_nodes(before)
        self.preferred = next((result.preferred for result in before if result.preferred), ())
        self._seen = 0
        self._state: Hashable = None
        self._single: SingleRow | None = None
        self._feasible: tuple[Rows, Rows | slice] | None = None
        self.generation = 0
        self.classes = 0
        self.fits: Mask = np.zeros(0, np.bool_)
        self.local: Amounts = np.zeros(0)
        self.relative: list[tuple[ClassPlugin, Amounts]] = []
        self.uneven: list[tuple[ClassPlugin, Amounts]] = []

    @property
    def size(self) -> int:
        """Size in bytes by row, without that of ``base``."""
        return self.fits.nbytes + self.local.nbytes + sum(raw.nbytes for _, raw in self.relative)

    def refresh(self) -> None:
        """Ask about the rows that changed."""
        state, position = self._state_of_others(), self._journal.position
        is_same = state == self._state
        if is_same and position == self._seen:
            return
        self._state = None  # a plugin may fail half-way
        few = self._journal.few_since(self._seen) if is_same and self._named is None else None
        if few is not None:
            self._update_few(few)
        else:
            changed = self._journal.changed_since(self._seen) if is_same else None
            self._update(self._only_named(self._begin() if changed is None else changed))
        self._state, self._seen = state, position

    def _state_of_others(self) -> Hashable:
        """All that answers depend on beside the rows; ``base`` is up to date then."""
        base = self._base
        if base is not None:
            base.refresh()
        generations = self._nodes.generation, base.generation if base is not None else 0
        depending = self._depending
        return (*generations, *[state() for state in depending]) if depending else generations

    def feasible(self) -> tuple[Rows, Rows | slice]:
        """The rows that fit, and the same as ``span``; remembered while they are the same."""
        if self._feasible is None:
            (rows,) = self.fits.nonzero()
            self._feasible = rows, span(rows)
        return self._feasible

    def _begin(self) -> Rows:
        """The rows to ask about; on all others pods of the class cannot run."""
        length = len(self._nodes)
        self.generation += 1
        self._feasible = None
        self.fits, self.local = np.zeros(length, np.bool_), np.zeros(length)
        self.relative = [(answer, np.zeros(length)) for answer in self._normalized]
        return np.flatnonzero(self._nodes.is_node if self._base is None else self._base.fits)

    def _only_named(self, rows: Rows) -> Rows:
        if self._named is None:
            return rows
        named = [row for row in map(self._nodes.row, self._named) if row is not None]
        is_named = np.isin(rows, named)
        self.fits[rows[~is_named]] = False  # a row may have another node by now
        self._feasible = None
        return rows[is_named]

    def _update(self, rows: Rows) -> None:
        at = span(rows)
        fits, self.local[at] = self.ask(rows)
        if self._feasible is not None and self.fits[at].tobytes() != fits.tobytes():
            self._feasible = None
        self.fits[at] = fits
        for (_, raw), (_, scores) in zip(self.relative, self.ask_relative(rows), strict=True):
            raw[at] = scores
        self._find_uneven()

    def _update_few(self, rows: Iterable[int]) -> None:
        if self._single is None:
            self._single = SingleRow(self._pod, self._nodes, self._plugins)
        for row in rows:
            self.update_row(self._single, row)
        self._find_uneven()

    def update_row(self, single: SingleRow, row: int) -> None:
        """Ask about a row; ``base`` is up to date."""
        base, nodes = self._base, self._nodes
        fits, local_of = (
            (nodes.is_node, nodes.tie_break) if base is None else (base.fits, base.local)
        )
        local = single.ask(row, local_of.item(row)) if fits.item(row) else None
        if self.fits.item(row) != (local is not None):
            self.fits[row] = local is not None
            self._feasible = None
        self.local[row] = local or 0.0
        for (_, raw), score in zip(self.relative, single.relative, strict=True):
            raw[row] = score(row)

    def _find_uneven(self) -> None:
        if self.relative:
            self.uneven = [
                (answer, raw) for answer, raw in self.relative if not _is_even(raw[self.fits])
            ]

    def ask(self, rows: Rows) -> tuple[Mask, Amounts]:
        """Return the values of ``fits`` and ``local`` for these rows; ``base`` is up to date."""
        base, nodes = self._base, self._nodes
        fits = copied(nodes.is_node if base is None else base.fits, rows)
        local = copied(nodes.tie_break if base is None else base.local, rows)
        for plugin in self._plugins:
            if plugin.filter is not None:
                fits &= plugin.filter(rows)
            if plugin.score is not None and not plugin.plugin.normalizes:
                scores = plugin.score(rows)
                local += scores if plugin.weight == 1 else plugin.weight * scores
        return fits, local

    def ask_relative(self, rows: Rows) -> Iterator[tuple[ClassPlugin, Amounts]]:
        """Return the values of ``relative`` for these rows."""
        for answer in self._normalized:
            if answer.score is not None:
                yield answer, answer.score(rows)


class SharedScores:
    """Row scores of those plugins that look at nodes alone, and never at the pods on them.

    Classes share them that are alike in what these plugins look at.
    """

    _MOST_BYTES = 32 << 20

    def __init__(self, nodes: ClusterState, plugins: Sequence[EnabledPlugin]) -> None:
        self._nodes = nodes
        self._plugins = [
            plugin for plugin in plugins if type(plugin.plugin).sign is not Plugin.sign
        ]
        self._scores: LRUCache[Hashable, RowScores] = LRUCache(self._MOST_BYTES)

    def of(self, pod: PodClass) -> RowScores:
        """The row scores of a class."""
        key = tuple(plugin.plugin.sign(pod) for plugin in self._plugins)
        found = self._scores.get(key)
        if found is None:
            journal = self._nodes.node_journal
            found = RowScores(pod, self._nodes, journal, self._plugins)
            self._scores.add(key, found)
        found.classes += 1
        return found


def _named_nodes(results: Iterable[PreFilterResult]) -> frozenset[str] | None:
    """The only nodes that come into question, as for pods of DaemonSets; ``None`` for all."""
    named = [result.nodes for result in results if result.nodes is not None]
    return frozenset.intersection(*named) if named else None


def _is_even(scores: Amounts) -> bool:
    return not len(scores) or bool(scores.min() == scores.max())
