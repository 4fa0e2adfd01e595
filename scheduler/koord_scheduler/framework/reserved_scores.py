"""What plugins say about a class whose pods may use reservations. No IO.

To such pods the room that is left of these reservations is free, so plugins are asked as if they
were not there. A reservation that changes is a change of its row, and all answers about a row are
made with the reservations as they are; no other row is touched.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Protocol

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.framework.class_scores import ClassScores, PluginReasons, PodLimits
from koord_scheduler.framework.pre_allocatable_pods import PreAllocatablePods
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.row_scores import ClassPlugin, RowScores, SharedScores
from koord_scheduler.reservations.matching import Match, match
from koord_scheduler.reservations.owners import OwnedPod
from koord_scheduler.reservations.reservation import Reservation


class MatchingReservations:
    """The available reservations that pods of a class may use, looked up when they change."""

    def __init__(self, pod: PodClass, nodes: NodeColumns) -> None:
        self._pod = pod
        self._nodes = nodes
        needs = pod.reservation
        self._owned = OwnedPod(
            pod.labels.namespace, dict(pod.labels.labels), needs.owners, needs.name, needs.uid
        )
        self._requests = dict(pod.amounts)
        self._state: Hashable = None
        self._by_node: dict[str, list[Reservation]] = {}
        self._changes: Hashable = None
        self._held: dict[str, list[tuple[str, PodUsage]]] = {}
        self._all: list[tuple[str, PodUsage]] = []

    def by_node(self) -> dict[str, list[Reservation]]:
        """By the names of their nodes; some of them may be used up."""
        nodes = self._nodes
        state = nodes.reservations.version, nodes.version if self._pod.reservation.affinity else 0
        if state != self._state:
            self._by_node = {}
            reservations, ignores = nodes.reservations, self._pod.reservation.ignores
            labels = self._owned.labels
            for one in reservations.available() if ignores else reservations.candidates(labels):
                if self.match(one) is Match.MATCHED:
                    self._by_node.setdefault(one.node, []).append(one)
            self._state = state
        return self._by_node

    def match(self, reservation: Reservation) -> Match:
        """Whether pods of the class may use a reservation."""
        row = self._nodes.row(reservation.node)
        labels = self._nodes.labels.of(row) if row is not None else {}
        return match(reservation, self._pod.reservation, self._owned, self._requests, labels)

    def on(self, node: str) -> list[Reservation]:
        """Those of a node that are not used up."""
        reservations = self._nodes.reservations
        return [one for one in self.by_node().get(node, ()) if reservations.has(one.key)]

    def nodes(self) -> Collection[str]:
        """The nodes that have some that are not used up."""
        self.held()
        return self._held.keys()

    def reservations_on(self, node: str) -> Collection[str]:
        """The uids of those of a node that are not used up."""
        return [one.uid for one in self.on(node)]

    def have_reservations(self, rows: Rows) -> Mask:
        """Of each of these rows, whether there are any that are not used up."""
        return np.isin(rows, [row for row in map(self._nodes.row, self.nodes()) if row is not None])

    def held(self, rows: Rows | None = None) -> Sequence[tuple[str, PodUsage]]:
        """What they take of their nodes: of ``rows``, or of all."""
        reservations = self._nodes.reservations
        if not len(reservations):
            self._held, self._changes = {}, None
            return ()
        by_node = self.by_node()
        if rows is not None and len(rows) == 1:  # as dry runs ask, after each change
            found = ((one.node, reservations.held(one.key)) for one in self._on_row(int(rows[0])))
            return [(node, held) for node, held in found if held is not None]
        if self._changes != (reservations.changes, self._state):
            self._held = {}
            for one in chain.from_iterable(by_node.values()):
                if (held := reservations.held(one.key)) is not None:
                    self._held.setdefault(one.node, []).append((one.node, held))
            self._all = list(chain.from_iterable(self._held.values()))
            self._changes = reservations.changes, self._state
        if rows is None or not self._held:
            return self._all
        return list(chain.from_iterable(self._held[name] for name in self._names_of(rows)))

    def _on_row(self, row: int) -> Sequence[Reservation]:
        return self.by_node().get(self._nodes.name(row), ())

    def _names_of(self, rows: Rows) -> Iterable[str]:
        """The nodes of some rows that have such reservations."""
        nodes, by_node = self._nodes, self._held
        if len(rows) < len(by_node):
            return [name for name in map(nodes.name, rows.tolist()) if name in by_node]
        chosen = np.zeros(len(nodes), np.bool_)
        chosen[rows] = True
        return [name for name in by_node if (row := nodes.row(name)) is not None and chosen[row]]


class HeldRoom(Protocol):
    """What pods of a class may use though others, or reservations, have it."""

    def held(self, rows: Rows | None = None) -> Sequence[tuple[str, PodUsage]]:
        """With its nodes: of ``rows``, or of all."""
        ...

    def reservations_on(self, node: str) -> Collection[str]:
        """The uids of a node's reservations that they may use."""
        ...

    def have_reservations(self, rows: Rows) -> Mask:
        """Of each of these rows, whether there are any."""
        ...


def _held_room(pod: PodClass, nodes: NodeColumns) -> HeldRoom:
    """That of reservations, and of the pods that a reservation may take over."""
    reserve = pod.reservation.reserve
    if reserve is None or reserve.takes_over is None:
        return MatchingReservations(pod, nodes)
    return PreAllocatablePods(reserve.takes_over, nodes)


class ReservedRowScores(RowScores):
    """Row scores of a class without the reservations that its pods may use."""

    def __init__(
        self,
        pod: PodClass,
        nodes: NodeColumns,
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

    def ask_relative(self, rows: Rows) -> Iterator[tuple[ClassPlugin, Amounts]]:
        held = self._held.held(rows)
        if not held:
            return super().ask_relative(rows)
        with self._nodes.without(held):
            return iter(list(super().ask_relative(rows)))


class ReservedClassScores(ClassScores):
    """As ``ClassScores``, without the reservations that pods of the class may use."""

    def __init__(
        self,
        pod: PodClass,
        nodes: NodeColumns,
        plugins: Sequence[EnabledPlugin],
        shared: SharedScores | None = None,
    ) -> None:
        self._held = _held_room(pod, nodes)
        super().__init__(pod, nodes, plugins, shared)

    def _row_scores(self, plugins: Iterable[EnabledPlugin], base: RowScores) -> RowScores:
        return ReservedRowScores(self.pod, self.nodes, plugins, base, self._held)

    def _without(self, rows: Rows) -> AbstractContextManager[None]:
        """While nothing is left of them on some rows, or on all if answers depend on all."""
        held = self._held.held(None if self._across else rows)
        return self.nodes.without(held) if held else nullcontext()

    def _without_labels(self) -> AbstractContextManager[None]:
        """While they do not count as pods; what looks at all nodes does not look at room."""
        held = self._held.held()
        return self.nodes.without_labels(held) if held else nullcontext()

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
        with self.nodes.without(held) if held else nullcontext():
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
        # With labels of reservations there may be more that keeps it off, and not less.
        names = super()._across_reject(at)
        sure = {one.plugin.name for one, _ in self._across if not one.plugin.across_pods}
        return bool(names) and (not sure.isdisjoint(names) or bool(self._across_reject(at)))

    def reasons(self, rows: Rows) -> list[PluginReasons]:
        with self._without(rows):
            return super().reasons(rows)

    def limits(self, rows: Rows, nominated: Sequence[PodUsage] = ()) -> PodLimits:
        with self._without(rows):
            return super().limits(rows, nominated)

    def may_use(self, node: str, reservation: str) -> bool:
        return reservation in self._held.reservations_on(node)

    def use_reservations(self, rows: Rows) -> Mask:
        return self._held.have_reservations(rows)

    def scores(self, rows: Rows) -> dict[str, Amounts]:
        with self._without(rows):
            return super().scores(rows)


def class_scores(
    pod: PodClass,
    nodes: NodeColumns,
    plugins: Sequence[EnabledPlugin],
    shared: SharedScores | None = None,
) -> ClassScores:
    """The scores of a class, by reservations where a profile uses them."""
    kind = ReservedClassScores if nodes.reservations.is_used else ClassScores
    return kind(pod, nodes, plugins, shared)
