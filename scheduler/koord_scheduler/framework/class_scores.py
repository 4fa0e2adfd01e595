"""Answers of all plugins about a class of pods, kept until nodes change. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeGuard

import numpy as np

from koord_scheduler.framework.class_plugin import ClassPlugin
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.row_scores import RowScores, SharedScores
from koord_scheduler.plugin import AcrossNodes, Limit, Plugin, PreFilterResult, Reason
from koord_scheduler.state.arrays import Amounts, Mask, Rows, both, span
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.lru_cache import HasSize
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage


class PluginReasons(NamedTuple):
    """Reasons of a plugin's rejections; ``rejects`` is true for each rejected row."""

    plugin: str
    reasons: list[Reason]
    rejects: Mask


class PodLimits(NamedTuple):
    """Dependence of a class's filters on the pods of some rows.

    ``is_fixed``: rows that a filter rejects whatever pods are on them. ``is_resolvable``: those
    where the first plugin that rejects them, if any, may let them through once pods have left.
    ``limits`` are all other filters, unless not all of them can be said so (``are_all``).
    """

    is_fixed: Mask
    is_resolvable: Mask
    limits: list[Limit]
    are_all: bool


class PlainLimits(NamedTuple):
    """All filters of a class as limits, if that is possible for all of them (``are_all``).

    ``are_local``: they depend on nothing but their rows.
    """

    limits: list[Limit]
    are_all: bool
    are_local: bool


CLASS_BYTES = 16 << 10
"""Of a class beside what it keeps by row: 11 to 14 KiB were measured with the default plugins."""


class ClassScores:
    """Feasible nodes for the pods of a class, and their scores.

    Only rows that changed are asked about again. The result is that of asking about all rows.
    ``shared`` are used together with other classes of the same profile.
    """

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        plugins: Sequence[EnabledPlugin],
        shared: SharedScores | None = None,
    ) -> None:
        self.pod = pod
        self.nodes = nodes
        self._base = base = (shared or SharedScores(nodes, plugins)).of(pod)
        known = {answer.plugin: answer for answer in base.answers}
        others = [plugin for plugin in plugins if plugin.plugin not in known]
        self._rows = self._row_scores(others, base)
        by_plugin = known | {answer.plugin: answer for answer in self._rows.answers}
        self._answers = [by_plugin[plugin.plugin] for plugin in plugins]
        self._across = [(answer, answer.across) for answer in self._answers if answer.across]
        self._keeping = [across for _, across in self._across if _has_size(across)]
        self.beside_nominated: object = None
        """Known rows on which nominated pods leave too little."""

    def _row_scores(self, plugins: Iterable[EnabledPlugin], base: RowScores) -> RowScores:
        return RowScores(self.pod, self.nodes, self.nodes.journal, plugins, base)

    def plugin(self, name: str) -> Plugin:
        """A plugin of the profile by its name."""
        return next(answer.plugin for answer in self._answers if answer.plugin.name == name)

    @property
    def base(self) -> RowScores:
        """The answers that it shares with others."""
        return self._base

    def depends_on_changed_rows(self) -> bool:
        """True if a class that fits nowhere can fit only on a node that changes from now on."""
        self._rows.refresh()
        depend_on_more = (answer.filter and answer.depends_on for answer in self._answers)
        return not self._rows.fits.any() and not any(depend_on_more)

    @property
    def preferred(self) -> tuple[str, ...]:
        """The nodes that come before all others, in this order, if a pod fits there."""
        return self._base.preferred or self._rows.preferred

    def first_preferred(self, rows: Rows) -> Rows:
        """Of feasible rows the first that is preferred; all of them if none is."""
        for row in map(self.nodes.row, self.preferred):
            if row is not None and row in rows:
                return np.array([row])
        return rows

    @property
    def size(self) -> int:
        """Size in bytes, with its part of the shared data."""
        by_row = len(self.nodes) + self._rows.size + sum(across.size for across in self._keeping)
        return CLASS_BYTES + by_row + self._base.size // self._base.classes

    def feasible(self) -> Rows:
        """The rows of the nodes that a pod of the class can run on."""
        self._rows.refresh()
        rows, _ = self._rows.feasible()
        passed = self._pass_across(rows)
        return rows if passed is None else rows.compress(passed)

    def _pass_across(self, rows: Rows) -> Mask | None:
        """Of each of these rows, whether what depends on other nodes lets it; ``None``: of all."""
        passed: Mask | None = None
        for answer, across in self._across:
            if answer.filters:
                passed = both(passed, across.filter(rows))
        return passed

    def totals(self, rows: Rows) -> Amounts:
        """The weighted scores of feasible rows; they depend on which rows these are."""
        self._rows.refresh()
        relative = (*self._base.relative, *self._rows.relative)
        local = self._rows.local[span(rows)] - self.nodes.tie_break[span(rows)]
        return self._totals(rows, local, _of_rows(relative, rows))

    def _totals(
        self, rows: Rows, local: Amounts, relative: Iterable[tuple[ClassPlugin, Amounts]]
    ) -> Amounts:
        total = local
        for answer, raw in relative:
            total = total + answer.weight * answer.plugin.normalize(raw)
        for answer, across in self._across:
            scores = across.score(rows) if answer.weight else None
            if scores is not None:
                weighed = answer.weight * scores
                weighed += total
                total = weighed
        return total

    def best(self, rows: Rows) -> int | None:
        """Of feasible rows the one with the highest score; ``None`` where there is none."""
        if not len(rows):
            return None
        # Scores that are equal are so when they are normalized, too, and make no difference.
        uneven = (*self._base.uneven, *self._rows.uneven)
        known, at = self._rows.feasible()
        local = self._rows.local[at if rows is known else span(rows)]
        return self._best(rows, local, _of_rows(uneven, rows))

    def _best(
        self, rows: Rows, local: Amounts, relative: Iterable[tuple[ClassPlugin, Amounts]]
    ) -> int:
        return int(rows[self._totals(rows, local, relative).argmax()])

    def best_of_sample(self, sample: Rows, enough: int) -> int | None:
        """As ``best`` if there were no other rows; ``None`` if fewer than ``enough`` can be used.

        Nothing is kept of the answers.
        """
        if self.preferred:
            return None
        self._base.refresh()
        at = sample[self._base.fits[sample]]
        fits, local = self._rows.ask(at)
        rows, local = at[fits], local[fits]
        passed = self._pass_across(rows)
        if passed is not None:
            rows, local = rows[passed], local[passed]
        if len(rows) < enough:
            return None
        relative = (*_of_rows(self._base.uneven, rows), *self._rows.ask_relative(rows))
        return self._best(rows, local, relative)

    def rejections(self, row: int) -> list[str]:
        """The names of all plugins that keep the class off a node."""
        at = np.array([row])
        return [*self._alone_reject(at), *self._across_reject(at)]

    def rejects(self, row: int) -> bool:
        """True if some plugin keeps the class off a node."""
        return bool(self.rejections(row))

    def _alone_reject(self, at: Rows) -> list[str]:
        """Those that look at the row alone."""
        filters = ((answer.plugin.name, answer.filter) for answer in self._answers if answer.filter)
        return [name for name, fits in filters if not fits(at)[0]]

    def _across_reject(self, at: Rows) -> list[str]:
        """Those that may look at others, too."""
        filters = (
            (answer.plugin.name, across) for answer, across in self._across if answer.filters
        )
        found = ((name, across.filter(at)) for name, across in filters)
        return [name for name, fits in found if fits is not None and not fits[0]]

    def rejected_alone_by(self, plugin: str) -> Rows:
        """The rows of nodes that a plugin rejects, and no other one."""
        rows = np.flatnonzero(self.nodes.is_node)
        found = np.zeros(len(rows), np.bool_)
        others = np.zeros(len(rows), np.bool_)
        for reason in self.reasons(rows):
            if reason.plugin == plugin:
                found |= reason.rejects
            else:
                others |= reason.rejects
        return rows[found & ~others]

    def reasons(self, rows: Rows) -> list[PluginReasons]:
        """Return each plugin's reasons for rejecting some of ``rows``, in the profile's order."""
        return [self._reasons(answer, rows) for answer in self._answers if answer.filters]

    def _reasons(self, class_plugin: ClassPlugin, rows: Rows) -> PluginReasons:
        reasons = class_plugin.plugin.reasons(self.pod, self.nodes, rows)
        if class_plugin.across is not None:
            reasons = [*reasons, *class_plugin.across.reasons(rows)]
        rejects = np.zeros(len(rows), np.bool_)
        for reason in reasons:
            rejects |= reason.rows
        return PluginReasons(class_plugin.plugin.name, reasons, rejects)

    def limits(self, rows: Rows, nominated: Sequence[PodUsage] = ()) -> PodLimits:
        """Return how the filters depend on the pods of these rows, and on nominated ones."""
        is_fixed, rejected = np.zeros((2, len(rows)), np.bool_)
        is_resolvable, found, are_all = np.ones(len(rows), np.bool_), list[Limit](), True
        for answer in self._answers:
            if not answer.filters or (answer.filter is None and answer.across is None):
                continue
            reasons = self._reasons(answer, rows)
            limits = answer.plugin.limits(self.pod, self.nodes, rows, nominated)
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

    def plain_limits(self, rows: Rows, nominated: Sequence[PodUsage]) -> PlainLimits:
        """The limits of these rows, when ``nominated`` pods are on them."""
        found, are_all, are_local = list[Limit](), True, True
        for answer in self._answers:
            if not answer.filters or (answer.filter is None and answer.across is None):
                continue
            limits = answer.plugin.limits(self.pod, self.nodes, rows, nominated)
            are_all &= limits is not None
            are_local &= limits is not None and not (limits and answer.across)
            found += limits or ()
        return PlainLimits(found, are_all, are_local)

    def may_use(self, node: str, holder: str) -> bool:
        """Return True if the class may use what a holder, by its uid, holds of a node."""
        return False

    def enough_candidates(self, nodes: int) -> float:
        """The number of rows with held room, of so many nodes, that are enough for preemption."""
        return np.inf

    def have_held(self, rows: Rows) -> Mask:
        """Return True for each of these rows where others hold room that the class may use.

        Pods that leave may give their room to these: limits do not say what becomes of it.
        """
        return np.zeros(len(rows), np.bool_)

    def pre_filter(self) -> list[tuple[str, PreFilterResult]]:
        """Return each plugin's pre-filter result by its name, in the profile's order."""
        filtering = (answer.plugin for answer in self._answers if answer.filters)
        return [(plugin.name, plugin.pre_filter(self.pod, self.nodes)) for plugin in filtering]

    def scores(self, rows: Rows) -> dict[str, Amounts]:
        """The weighted score of each plugin for feasible rows, by its name."""
        found = {
            answer.plugin.name: answer.weight * answer.plugin.normalize(answer.score(rows))
            for answer in self._answers
            if answer.score is not None
        }
        for answer, across in self._across:
            scores = across.score(rows) if answer.weight else None
            if scores is not None:
                found[answer.plugin.name] = answer.weight * scores
        return found


def _has_size(across: AcrossNodes) -> TypeGuard[HasSize]:
    return hasattr(across, "size")


def _of_rows(
    scores: Iterable[tuple[ClassPlugin, Amounts]], rows: Rows
) -> Iterator[tuple[ClassPlugin, Amounts]]:
    return ((answer, raw[rows]) for answer, raw in scores)
