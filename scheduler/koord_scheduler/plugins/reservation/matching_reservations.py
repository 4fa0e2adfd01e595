"""The reservations that pods of a class may use. No IO."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain

import numpy as np

from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.matching import Match, match
from koord_scheduler.plugins.reservation.owners import OwnedPod
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION_NEEDS
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage


class MatchingReservations:
    """The available reservations that pods of a class may use, looked up when they change."""

    def __init__(self, pod: PodClass, nodes: ClusterState) -> None:
        self._nodes = nodes
        self._reservations = nodes.use(ReservationColumns)
        self._needs = needs = pod.of(RESERVATION_NEEDS)
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
        reservations, needs = self._reservations, self._needs
        state = reservations.version, self._nodes.version if needs.affinity else 0
        if state != self._state:
            self._by_node = {}
            labels = self._owned.labels
            for reservation in (
                reservations.available() if needs.ignores else reservations.candidates(labels)
            ):
                if self.match(reservation) is Match.MATCHED:
                    self._by_node.setdefault(reservation.node, []).append(reservation)
            self._state = state
        return self._by_node

    def match(self, reservation: Reservation) -> Match:
        """Match a reservation with pods of the class."""
        row = self._nodes.row(reservation.node)
        labels = self._nodes.labels.of(row) if row is not None else {}
        return match(reservation, self._needs, self._owned, self._requests, labels)

    def on(self, node: str) -> list[Reservation]:
        """Those of a node that are not used up."""
        reservations = self._reservations
        return [
            reservation
            for reservation in self.by_node().get(node, ())
            if reservations.has(reservation.key)
        ]

    def nodes(self) -> Collection[str]:
        """The nodes that have some that are not used up."""
        self.held()
        return self._held.keys()

    def holders_on(self, node: str) -> Collection[str]:
        """The uids of those of a node that are not used up."""
        return [reservation.uid for reservation in self.on(node)]

    def have_room(self, rows: Rows) -> Mask:
        """Of each of these rows, whether there are any that are not used up."""
        return np.isin(rows, [row for row in map(self._nodes.row, self.nodes()) if row is not None])

    def held(self, rows: Rows | None = None) -> Sequence[tuple[str, PodUsage]]:
        """Return their usage of their nodes: of ``rows``, or of all."""
        reservations = self._reservations
        by_node = self.by_node()
        if not by_node:
            self._held, self._changes = {}, None
            return ()
        if rows is not None and len(rows) == 1:  # as dry runs ask, after each change
            found = (
                (reservation.node, reservations.held(reservation.key))
                for reservation in self._on_row(int(rows[0]))
            )
            return [(node, held) for node, held in found if held is not None]
        if self._changes != (reservations.changes, self._state):
            self._held = {}
            for reservation in chain.from_iterable(by_node.values()):
                if (held := reservations.held(reservation.key)) is not None:
                    self._held.setdefault(reservation.node, []).append((reservation.node, held))
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

    def enough_candidates(self, nodes: int) -> float:
        """The number of rows with such reservations that preemption looks at."""
        return self._reservations.enough_candidates.of(nodes)
