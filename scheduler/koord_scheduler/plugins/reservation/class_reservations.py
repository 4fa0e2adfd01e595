"""The reservations that pods of a class may use, and which one they get on each node. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from koord_scheduler.extension_points.kept_room import Lacks
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.fit import (
    Offer,
    ReservationAnswer,
    ReservationDemand,
    reservation_answer,
)
from koord_scheduler.plugins.reservation.matching_reservations import MatchingReservations
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION_NEEDS
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.resources import PODS


class ClassReservations:
    """Answers about nodes that have such reservations, kept until their rows change.

    They are the same while columns are without these reservations, and while they are not.
    """

    def __init__(
        self,
        pod: PodClass,
        nodes: ClusterState,
        ignored: frozenset[str],
        checking: Sequence[Plugin] = (),
    ) -> None:
        affinity = pod.of(RESERVATION_NEEDS).affinity
        name = affinity.name if affinity is not None else ""
        self.pod = pod
        self.demand = ReservationDemand(dict(pod.amounts), affinity is not None, name, ignored)
        self.matching = MatchingReservations(pod, nodes)
        self._nodes = nodes
        self._checking = checking
        self.resources = (*(request for request in self.demand.requests if request != PODS), PODS)
        self._state: Hashable = None
        self._seen = 0
        self._answers: dict[int, ReservationAnswer] = {}
        self._has: Mask = np.zeros(0, np.bool_)

    def exist(self) -> bool:
        """True if there are any that are not used up."""
        if not self.matching.by_node():
            return False
        self._forget_changed()
        return bool(self._has.any())

    def answers(self, rows: Rows) -> Iterator[tuple[int, ReservationAnswer]]:
        """The answers about those of ``rows`` that have any, each with its place."""
        if not self.exist():
            return
        for place in np.flatnonzero(self._has[rows]).tolist():
            yield place, self.answer(int(rows[place]))

    def answer(self, row: int) -> ReservationAnswer:
        """The answer about a row."""
        found = self._answers.get(row)
        if found is None:
            free, offers = self.offers(row)
            lacks = partial(_first_lack, self._checks(row, offers))
            found = self._answers[row] = reservation_answer(self.demand, free, offers, lacks)
        return found

    def are_checked(self, rows: Rows) -> bool:
        """True if there is more to the answers about rows than amounts."""
        if not self._checking:
            return False
        return any(
            self._checks(int(rows[place]), self.offers(int(rows[place]))[1])
            for place, _ in self.answers(rows)
        )

    def _checks(self, row: int, offers: Sequence[Offer]) -> list[Lacks]:
        kept = [offer.kept for offer in offers]
        found = (
            plugin.kept_room_check(self.pod, self._nodes, row, kept) for plugin in self._checking
        )
        return [lacks for lacks in found if lacks is not None]

    def offers(self, row: int) -> tuple[dict[str, float], list[Offer]]:
        """Return the rest of a node beside all reservations, and the offers there."""
        nodes = self._nodes
        resources, found = nodes.resources, self.matching.on(nodes.name(row))
        offers = [nodes.use(ReservationColumns).offer(reservation.key) for reservation in found]
        lacks = nodes.lacks_pods(row)
        backed = nodes.backing.backed(self.pod)
        free = {}
        for name in self.resources:
            column = resources.column(name)
            has = float(resources.allocatable[column, row])
            if name in backed and not has:
                has = np.inf
            kept = sum(offer.remainder.get(name, 0) for offer in offers) if lacks else 0
            free[name] = has - float(resources.requested[column, row]) - kept
        return free, offers

    def nominated_on(self, row: int) -> Offer | None:
        """The reservation that a pod gets there."""
        if not self.exist():
            return None
        return self.answer(row).nominated

    def _forget_changed(self) -> None:
        nodes = self._nodes
        state = nodes.generation, nodes.use(ReservationColumns).version
        changed = nodes.journal.changed_since(self._seen) if state == self._state else None
        if changed is None:
            self._answers.clear()
            self._has = self.matching.have_room(np.arange(len(nodes)))
        else:
            for row in changed.tolist():
                self._answers.pop(row, None)
                self._has[row] = bool(self.matching.on(nodes.name(row)))
        self._state, self._seen = state, nodes.journal.position


def _first_lack(checks: Iterable[Lacks], offer: Offer | None) -> str:
    kept = offer.kept if offer is not None else None
    return next(filter(None, (lacks(kept) for lacks in checks)), "")
