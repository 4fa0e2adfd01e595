"""Answers of the plugin Reservation about a class of pods. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
from koord_model.quantity import quantity_text

from koord_scheduler.plugin import AcrossNodes, Reason, normalized
from koord_scheduler.plugins.reservation.class_reservations import ClassReservations
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.fit import (
    NO_AFFINITY,
    Offer,
    ReservationDemand,
    lacks_of_node,
    lacks_of_reservation,
)
from koord_scheduler.plugins.reservation.pod_needs import ReserveNeeds
from koord_scheduler.plugins.reservation.reservation import DEFAULT_POLICY
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState

OTHER_NODE = "node(s) didn't match the nodeName specified by reservation"
POLICY_CONFLICT = "node(s) reservation allocate policy conflict"
_PREFERRED = 1000.0
"""The score of the node with the lowest order, before it is normalized."""


class UnplaceablePods(AcrossNodes):
    """About pods that can be placed nowhere, for a reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def filter(self, rows: Rows) -> Mask | None:
        return np.zeros(len(rows), np.bool_)

    def reasons(self, rows: Rows) -> list[Reason]:
        return [Reason(self._reason, np.ones(len(rows), np.bool_), resolvable=False)]

    def score(self, rows: Rows) -> Amounts | None:
        return None


class NewReservations(AcrossNodes):
    """About a reservation that has no node yet."""

    def __init__(self, needs: ReserveNeeds, nodes: ClusterState) -> None:
        self._needs = needs
        self._nodes = nodes

    def filter(self, rows: Rows) -> Mask | None:
        found = np.ones(len(rows), np.bool_)
        for reason in self.reasons(rows):
            found &= ~reason.rows
        return found

    def reasons(self, rows: Rows) -> list[Reason]:
        nodes, needs = self._nodes, self._needs
        others = (
            reservation
            for reservation in nodes.use(ReservationColumns).available()
            if nodes.use(ReservationColumns).has(reservation.key)
        )
        conflicting = {
            reservation.node
            for reservation in others
            if _conflict(needs.policy, reservation.policy)
        }
        conflicts = [row for row in map(nodes.row, conflicting) if row is not None]
        found = [Reason(POLICY_CONFLICT, np.isin(rows, conflicts), False)]
        if needs.node:
            named = nodes.row(needs.node)
            other = rows != (-1 if named is None else named)
            found = [
                Reason(OTHER_NODE, other, False),
                found[0]._replace(rows=found[0].rows & ~other),
            ]
        return found

    def score(self, rows: Rows) -> Amounts | None:
        return None


class ReservationUsers(AcrossNodes):
    """About pods that may use reservations, or have to."""

    def __init__(self, found: ClassReservations, nodes: ClusterState) -> None:
        self._found = found
        self._nodes = nodes

    def filter(self, rows: Rows) -> Mask | None:
        requires = self._found.demand.requires
        if not requires and not self._found.exist():
            return None
        fits = np.full(len(rows), not requires)
        for place, answer in self._found.answers(rows):
            fits[place] = answer.fits
        return fits

    def reasons(self, rows: Rows) -> list[Reason]:
        by_text: dict[str, list[int]] = {}
        answered = np.zeros(len(rows), np.bool_)
        for place, answer in self._found.answers(rows):
            answered[place] = True
            for text in answer.reasons:
                by_text.setdefault(text, []).append(place)
        note = partial(self._note, self._notes(rows, sorted({*chain(*by_text.values())})))
        found = [
            Reason(text, np.isin(np.arange(len(rows)), places), note=note)
            for text, places in by_text.items()
        ]
        if self._found.demand.requires:
            found.append(Reason(NO_AFFINITY, ~answered, resolvable=False))
        return found

    def score(self, rows: Rows) -> Amounts | None:
        answers = list(self._found.answers(rows))
        if not answers:
            return None
        scores = np.zeros(len(rows))
        lowest = min((one.order for _, one in answers if one.order), default=0)
        for place, answer in answers:
            is_preferred = lowest and answer.order == lowest
            scores[place] = _PREFERRED if is_preferred else answer.score
        return normalized(scores)

    def _notes(self, rows: Rows, places: Sequence[int]) -> dict[int, str]:
        """For some places, which reservation comes nearest to taking a pod, and what it lacks."""
        found = {}
        for place in places:
            free, offers = self._found.offers(int(rows[place]))
            if offers:
                found[place] = nearest_reservation(self._found.demand, free, offers)
        return found

    @staticmethod
    def _note(notes: Mapping[int, str], at: int) -> str:
        return notes.get(at, "")


def nearest_reservation(
    pod: ReservationDemand, free: Mapping[str, float], offers: Sequence[Offer]
) -> str:
    """The reservation that lacks least for a pod, relative to what it has, in a line."""

    def lacks(offer: Offer) -> dict[str, float]:
        by_node = lacks_of_node(pod, free, offer)
        by_itself = lacks_of_reservation(pod, offer)
        return {
            name: max(by_node.get(name, 0), by_itself.get(name, 0))
            for name in sorted({*by_node, *by_itself})
        }

    def relative(offer: Offer) -> float:
        has = offer.reservation.allocatable
        return sum(lack / max(has.get(name, 0), 1) for name, lack in lacks(offer).items())

    best = min(offers, key=lambda one: (relative(one), one.reservation.name))
    missing = ", ".join(
        f"{quantity_text(name, int(lack))} {name}" for name, lack in lacks(best).items()
    )
    return f"reservation {best.reservation.name} lacks {missing}" if missing else ""


def _conflict(one: str, other: str) -> bool:
    """The default policy stands beside no other one on a node."""
    return DEFAULT_POLICY in (one, other) and one != other
