"""Scores of a class whose pods may use room that others hold. No IO.

To such pods that room is free, so plugins are asked as if its holders were not there. A holder
that changes is a change of its row, and all answers about a row are made with the holders as they
are; no other row is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from koord_scheduler.framework.class_plugin import ClassPlugin
from koord_scheduler.framework.class_scores import (
    ClassScores,
    PlainLimits,
    PluginReasons,
    PodLimits,
)
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.row_scores import RowScores, SharedScores
from koord_scheduler.framework.single_row import SingleRow
from koord_scheduler.plugin import HeldRoom
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage

_NOTHING_HELD = nullcontext()


class HeldRowScores(RowScores):
    """Row scores of a class without what holds room that its pods may use."""

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        plugins: Iterable[EnabledPlugin],
        base: RowScores,
        held: HeldRoom,
    ) -> None:
        super().__init__(pod, nodes, nodes.journal, plugins, base)
        self._held = held

    def ask(self, rows: Rows) -> tuple[Mask, Amounts]:
        held = self._held.held(rows)
        if not held:
            return super().ask(rows)
        with self._nodes.without(held):
            return super().ask(rows)

    def update_row(self, single: SingleRow, row: int) -> None:
        held = self._held.held() and self._held.held(np.array([row]))
        with self._nodes.without(held) if held else _NOTHING_HELD:
            super().update_row(single, row)

    def ask_relative(self, rows: Rows) -> Iterator[tuple[ClassPlugin, Amounts]]:
        held = self._held.held(rows)
        if not held:
            return super().ask_relative(rows)
        with self._nodes.without(held):
            return iter(list(super().ask_relative(rows)))


class HeldClassScores(ClassScores):
    """As ``ClassScores``, without what holds room that pods of the class may use."""

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        plugins: Sequence[EnabledPlugin],
        held: HeldRoom,
        shared: SharedScores | None = None,
    ) -> None:
        self._held = held
        super().__init__(pod, nodes, plugins, shared)

    def _row_scores(self, plugins: Iterable[EnabledPlugin], base: RowScores) -> RowScores:
        return HeldRowScores(self.pod, self.nodes, plugins, base, self._held)

    def _without(self, rows: Rows) -> AbstractContextManager[None]:
        """While nothing is left of them on some rows, or on all if answers depend on all."""
        held = self._held.held(None if self._across else rows)
        return self.nodes.without(held) if held else _NOTHING_HELD

    def _without_labels(self) -> AbstractContextManager[None]:
        """While they do not count as pods; what looks at all nodes does not look at room."""
        held = self._held.held()
        return self.nodes.without_labels(held) if held else _NOTHING_HELD

    def _pass_across(self, rows: Rows) -> Mask | None:
        with self._without_labels():
            return super()._pass_across(rows)

    def _totals(
        self, rows: Rows, local: Amounts, relative: Iterable[tuple[ClassPlugin, Amounts]]
    ) -> Amounts:
        with self._without_labels():
            return super()._totals(rows, local, relative)

    def _alone_reject(self, at: Rows) -> list[str]:
        held = self._held.held(at)
        with self.nodes.without(held) if held else _NOTHING_HELD:
            return super()._alone_reject(at)

    def _across_reject(self, at: Rows) -> list[str]:
        with self._without_labels():
            return super()._across_reject(at)

    def rejects(self, row: int) -> bool:
        at = np.array([row])
        if self._alone_reject(at):
            return True
        if self.pod.affinity.required or self.pod.spread:
            return bool(self._across_reject(at))
        # With labels of holders there may be more that keeps it off, and not less.
        names = super()._across_reject(at)
        sure = {one.plugin.name for one, _ in self._across if not one.plugin.across_pods}
        return bool(names) and (not sure.isdisjoint(names) or bool(self._across_reject(at)))

    def reasons(self, rows: Rows) -> list[PluginReasons]:
        with self._without(rows):
            return super().reasons(rows)

    def limits(self, rows: Rows, nominated: Sequence[PodUsage] = ()) -> PodLimits:
        with self._without(rows):
            return super().limits(rows, nominated)

    def plain_limits(self, rows: Rows, nominated: Sequence[PodUsage]) -> PlainLimits:
        with self._without(rows):
            return super().plain_limits(rows, nominated)

    def may_use(self, node: str, holder: str) -> bool:
        return holder in self._held.holders_on(node)

    def have_held(self, rows: Rows) -> Mask:
        return self._held.have_room(rows)

    def enough_candidates(self, nodes: int) -> float:
        return self._held.enough_candidates(nodes)

    def scores(self, rows: Rows) -> dict[str, Amounts]:
        with self._without(rows):
            return super().scores(rows)


def class_scores(
    pod: PodClass,
    nodes: ClusterState,
    plugins: Sequence[EnabledPlugin],
    shared: SharedScores | None = None,
) -> ClassScores:
    """The scores of a class, without holders of room that its pods may use."""
    for plugin in plugins:
        held = plugin.plugin.held_room(pod, nodes)
        if held is not None:
            return HeldClassScores(pod, nodes, plugins, held, shared)
    return ClassScores(pod, nodes, plugins, shared)
