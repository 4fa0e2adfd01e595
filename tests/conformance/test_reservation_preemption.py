"""Which pods a pod that may use reservations takes the place of, against Koordinator."""

from __future__ import annotations

from koord_scheduler.framework.decisions import Placement, PreemptionPlan
from koord_scheduler.plugins.reservation.settings import ReservationSettings

from tests.conformance.test_pre_allocation import (
    joined,
    name,
    only_what_is_reserved_counts,
    used_up_counts_once,
)
from tests.conformance.test_reservations import NodeWithReservations
from tests.conformance.vectors import Fields, Object, Vector, leaves, replay


def outcome(given: Object) -> Object:
    """What becomes of the pod, in a cluster of this node alone."""
    cluster = NodeWithReservations(given, ReservationSettings(preempts=True))
    decision = cluster.scheduler.decide(0.0)
    victims = decision.preemption.victims if isinstance(decision, PreemptionPlan) else ()
    return {
        "fits": isinstance(decision, Placement),
        "victims": joined(name(one.key) for one in victims),
    }


def theirs(recorded: Object) -> Object:
    """Whether all filters let it through, and the victims otherwise."""
    fits = recorded.get("filter", {}).get("code") == "Success"
    return {"fits": fits, "victims": joined(recorded.get("victims", ()))}


def ours(vector: Vector) -> Fields:
    """If it is one of the outcomes there, the first of them; otherwise what it is here."""
    mine, outcomes = outcome(vector.given), vector.recorded["outcomes"]
    return leaves(theirs(outcomes[0]) if mine in map(theirs, outcomes) else mine)


def first(recorded: Object) -> Fields:
    return leaves(theirs(recorded["outcomes"][0]))


def options_leave_nothing_uncounted(v: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There what restricted-options leave out is never counted as allocated."""
    return any("annotations" in one["metadata"] for one in v.given["Reservations"])


DIFFERENCES = (
    options_leave_nothing_uncounted,
    only_what_is_reserved_counts,
    used_up_counts_once,
)


def test_victims_are_those_of_koordinator() -> None:
    replay("reservation_preemption", ours, first, DIFFERENCES)
