"""Fit of a pod to a reservation and its node, and the choice between several. No IO.

Amounts are those of ``PodRequests``: CPU in millicores, everything else whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from koord_model.demand import Amounts

from koord_scheduler.extension_points.kept_room import KeptRoom
from koord_scheduler.plugins.reservation.reservation import RESTRICTED, Reservation
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.pod_usage import PodUsage

PODS = "pods"
NOTHING = PodUsage((), (0.0, 0.0), (), PodLabels("", ()))
"""Usage by a pod that takes nothing of a node."""
BY_RESERVATION = "Reservation(s) "
"""Beginning of reasons that are about reservations, not nodes."""
NO_AFFINITY = "node(s) no reservations match reservation affinity"
NONE_MEETS = "node(s) no reservation(s) to meet the requirements"
_MOST = 100


class Offer(NamedTuple):
    """A reservation that a pod may use: what ``owners`` pods have of it, and what is left."""

    reservation: Reservation
    allocated: Amounts
    owners: int
    remainder: Amounts
    left: PodUsage = NOTHING

    @property
    def kept(self) -> KeptRoom:
        """The room that it keeps for a pod that uses it."""
        return KeptRoom((self.left,), self.reservation.policy == RESTRICTED)


LacksMore = Callable[[Offer | None], str]
"""Function of a node's shortage with a reservation or ``None``, besides amounts; "": none."""


def _lacks_nothing(offer: Offer | None) -> str:
    return ""


class ReservationDemand(NamedTuple):
    """A pod's request, and if it ``requires`` a reservation, by its ``name`` or not.

    ``ignored`` are extended resources that others see to.
    """

    requests: Amounts
    requires: bool = False
    name: str = ""
    ignored: frozenset[str] = frozenset()


class ReservationAnswer(NamedTuple):
    """Answer about a pod on a node with reservations that it may use.

    ``nominated`` is the one it gets, ``None`` where it gets along without. ``score`` is 0 to 100;
    ``order`` the lowest of the reservations there, 0 if none has any. ``room`` is how much more
    of each resource there would be with what it gets; ``reasons`` say why it cannot run there.
    """

    fits: bool
    nominated: Offer | None = None
    score: int = 0
    order: int = 0
    room: Mapping[str, float] = {}
    reasons: tuple[str, ...] = ()


def reservation_answer(
    pod: ReservationDemand,
    free: Mapping[str, float],
    offers: Sequence[Offer],
    lacks_more: LacksMore = _lacks_nothing,
) -> ReservationAnswer:
    """As Koordinator's filter, ``NominateReservation`` and score.

    ``free`` is what is left of the node beside all pods and reservations, by resource; one that is
    not there is not left to the node either.
    """
    order = min((offer.reservation.order for offer in offers if offer.reservation.order), default=0)
    fitting = list[Offer]()
    by_node, by_reservation = dict[str, None](), dict[str, None]()
    for offer in offers:
        if not _concerns(pod, offer.reservation):
            continue
        node_lacks, lacks = node_reasons(pod, free, offer), reservation_reasons(pod, offer)
        if not node_lacks and not lacks and (more := lacks_more(offer)):
            lacks = [f"{BY_RESERVATION}{more}"]
        by_node.update(dict.fromkeys(node_lacks))
        by_reservation.update(dict.fromkeys(lacks))
        if not node_lacks and not lacks:
            fitting.append(offer)
    best = nominate(pod, fitting)
    if best is not None:
        room = {name: have + best.remainder.get(name, 0) for name, have in free.items()}
        return ReservationAnswer(True, best, allocation_score(pod.requests, best), order, room)
    if pod.requires:
        missing = NONE_MEETS if offers else NO_AFFINITY
        reasons = (*by_node, *by_reservation) or (missing,)
        return ReservationAnswer(False, order=order, reasons=reasons)
    alone = node_reasons(pod, free)
    if not alone and (more := lacks_more(None)):
        alone = [more]
    if not alone:
        return ReservationAnswer(True, order=order, room=free)
    # What it lacks even with a reservation comes nearer to the point.
    return ReservationAnswer(False, order=order, room=free, reasons=tuple(by_node or alone))


def node_reasons(
    pod: ReservationDemand, free: Mapping[str, float], offer: Offer | None = None
) -> list[str]:
    """Return why a node has too little for a pod, beside a reservation or with it."""
    return [f"Insufficient {name} by node" for name in lacks_of_node(pod, free, offer)]


def lacks_of_node(
    pod: ReservationDemand, free: Mapping[str, float], offer: Offer | None = None
) -> dict[str, float]:
    """Return the shortages of a node with a reservation, by resource."""
    remainder: Amounts = offer.remainder if offer is not None else {}
    wanted = {**pod.requests, PODS: 1}
    lacking = {
        name: amount - free.get(name, 0.0) - remainder.get(name, 0)
        for name, amount in wanted.items()
        if amount and name not in pod.ignored
    }
    return {name: amount for name, amount in lacking.items() if amount > 0}


def lacks_of_reservation(pod: ReservationDemand, offer: Offer) -> dict[str, int]:
    """Return the shortages of a Restricted reservation, by resource."""
    reservation = offer.reservation
    if reservation.policy != RESTRICTED:
        return {}
    lacking = {}
    if PODS in reservation.allocatable:
        lacking[PODS] = offer.owners + 1 - reservation.allocatable[PODS]
    for name in sorted(reservation.resources - {PODS} - pod.ignored):
        if amount := pod.requests.get(name, 0):
            lacking[name] = amount - _left(offer, name)
    return {name: amount for name, amount in lacking.items() if amount > 0}


def reservation_reasons(pod: ReservationDemand, offer: Offer) -> list[str]:
    """Return a Restricted reservation's reasons against a pod; with amounts if the pod names it."""
    return [
        f"{BY_RESERVATION}{_reason(pod, offer, name)}" for name in lacks_of_reservation(pod, offer)
    ]


def nominate(pod: ReservationDemand, fitting: Iterable[Offer]) -> Offer | None:
    """The reservation that a pod gets: the lowest order, otherwise what it fills the most.

    Of equal ones it is the first by name.
    """

    def rank(offer: Offer) -> tuple[float, int, str]:
        order = offer.reservation.order
        by_order = (0.0, order) if order else (1.0, -allocation_score(pod.requests, offer))
        return *by_order, offer.reservation.name

    return min(fitting, key=rank, default=None)


def allocation_score(requests: Amounts, offer: Offer) -> int:
    """Score the fill of a reservation with a pod, 0 to 100: the mean of what is allocated.

    A resource of which more is asked for than there is counts 0. As Koordinator's
    ``ScoreReservation``.
    """
    capacities = {name: have for name, have in offer.reservation.allocatable.items() if have}
    if not capacities:
        return 0
    total = 0
    for name, have in capacities.items():
        used = requests.get(name, 0) + _allocated(offer, name)
        if used <= have:
            total += _MOST * used // have
    return total // len(capacities)


def _concerns(pod: ReservationDemand, reservation: Reservation) -> bool:
    """True if it is worth asking: a pod that needs nothing that is reserved does not use it."""
    if pod.requires:
        return pod.name in ("", reservation.name)
    return not reservation.resources.isdisjoint(pod.requests)


def _allocated(offer: Offer, name: str) -> int:
    """Pods are counted, and not allocated."""
    counts = name in offer.reservation.resources and name != PODS
    return offer.allocated.get(name, 0) if counts else 0


def _left(offer: Offer, name: str) -> int:
    return offer.reservation.allocatable.get(name, 0) - _allocated(offer, name)


def _reason(pod: ReservationDemand, offer: Offer, name: str) -> str:
    has = offer.reservation.allocatable.get(name, 0)
    if name == PODS:
        if not pod.name:
            return "Too many pods"
        return f"Too many pods, requested: 1, used: {offer.owners}, capacity: {has}"
    if not pod.name:
        return f"Insufficient {name}"
    used = _allocated(offer, name)
    return f"Insufficient {name}, requested: {pod.requests[name]}, used: {used}, capacity: {has}"
