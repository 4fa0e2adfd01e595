"""Choice of running pods for a reservation without a node to take over. No IO.

Their room becomes part of it, and they become its owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from koord_model.demand import Amounts

from koord_scheduler.plugins.reservation.fit import (
    PODS,
    Offer,
    ReservationDemand,
    allocation_score,
    node_reasons,
    reservation_reasons,
)
from koord_scheduler.plugins.reservation.reservation import Reservation

NO_POD = "node(s) no pod(s) to meet the pre-allocation requirements"
NO_POD_ANYWHERE = "node(s) no pod match reservation with pre allocation required"
_MOST = 100


class PreAllocatablePod(NamedTuple):
    """A pod that a reservation may take over; ``key`` is namespace/name.

    In the mode Cluster those with the highest ``priority`` are first.
    """

    key: str
    uid: str
    requests: Amounts
    priority: int = 0


class PreAllocationAnswer(NamedTuple):
    """Answer about a reservation on a node, with its ``pods``; ``score`` is 0 to 100."""

    fits: bool
    pods: tuple[PreAllocatablePod, ...] = ()
    score: int = 0
    reasons: tuple[str, ...] = ()


class _Tried(NamedTuple):
    """The pods that make room, none if no pods do, and what was lacking with those tried."""

    pods: tuple[PreAllocatablePod, ...]
    by_node: Iterable[str] = ()
    by_reservation: Iterable[str] = ()


def pre_allocation_answer(
    reservation: Reservation,
    free: Mapping[str, float],
    pods: Sequence[PreAllocatablePod],
    *,
    ignored: frozenset[str] = frozenset(),
    prefers_none: bool = False,
) -> PreAllocationAnswer:
    """As Koordinator's filter, ``NominatePreAllocation`` and score.

    ``free`` is what is left of the node beside all pods, by resource. ``prefers_none``: no pod is
    taken over where there is room without.
    """
    policy = reservation.pre_allocation
    if policy is None:
        raise ValueError(f"reservation {reservation.name} takes no pods over")
    demand = ReservationDemand(reservation.allocatable, ignored=ignored)
    alone = node_reasons(demand, free)
    without = _MOST if policy.multiple else 0
    if prefers_none and not policy.is_required and not alone:
        return PreAllocationAnswer(True, score=without)
    concerned = [pod for pod in pods if not reservation.resources.isdisjoint(pod.requests)]
    ordered = sorted(concerned, key=lambda one: _rank(reservation, one))
    tried = (_some if policy.multiple else _one)(reservation, demand, free, ordered)
    if tried.pods:
        score = _MOST // (1 + len(tried.pods))
        if not policy.multiple:
            score = _fullness(reservation, tried.pods[0])
        return PreAllocationAnswer(True, tried.pods, score)
    by_node, by_reservation = dict.fromkeys(tried.by_node), dict.fromkeys(tried.by_reservation)
    if policy.is_required:
        return PreAllocationAnswer(False, reasons=(*by_node, *by_reservation) or (NO_POD,))
    reasons = tuple(by_node or alone)  # what it lacks even with pods comes nearer to the point
    return PreAllocationAnswer(not reasons, score=without, reasons=reasons)


def _rank(reservation: Reservation, pod: PreAllocatablePod) -> tuple[int, str]:
    """Pods that are taken over first have less of it."""
    policy = reservation.pre_allocation
    if policy is not None and policy.cluster and policy.multiple:
        return -pod.priority, pod.uid
    return -_fullness(reservation, pod), pod.key


def _fullness(reservation: Reservation, pod: PreAllocatablePod) -> int:
    """Score the fill with a pod, 0 to 100."""
    return allocation_score(pod.requests, Offer(reservation, {}, 0, {}))


def _one(
    reservation: Reservation,
    demand: ReservationDemand,
    free: Mapping[str, float],
    pods: Sequence[PreAllocatablePod],
) -> _Tried:
    """The first pod in whose place there is room."""
    all_by_node, all_by_reservation = list[str](), list[str]()
    for pod in pods:
        by_node = node_reasons(demand, _with(free, pod.requests))
        lacks = _reasons(reservation, demand, pod.requests, 0)
        if not by_node and not lacks:
            return _Tried((pod,))
        all_by_node += by_node
        all_by_reservation += lacks
    return _Tried((), sorted(all_by_node), all_by_reservation)


def _some(
    reservation: Reservation,
    demand: ReservationDemand,
    free: Mapping[str, float],
    pods: Sequence[PreAllocatablePod],
) -> _Tried:
    """Pods one after the other, but for those with which it is too small, until there is room."""
    taken = list[PreAllocatablePod]()
    requests: Amounts = {}
    by_node, all_by_reservation = list[str](), list[str]()
    for pod in pods:
        with_pod = _sum(requests, pod.requests)
        by_node = node_reasons(demand, _with(free, with_pod))
        lacks = _reasons(reservation, demand, with_pod, len(taken))
        all_by_reservation += lacks
        if lacks:
            continue
        requests = with_pod
        taken.append(pod)
        if not by_node:
            return _Tried(tuple(taken))
    return _Tried((), by_node, all_by_reservation)


def _reasons(
    reservation: Reservation, demand: ReservationDemand, requests: Amounts, owners: int
) -> list[str]:
    """Return the reservation's reasons against pods, with ``owners`` without the last one."""
    asked = ReservationDemand(requests, ignored=demand.ignored)
    return reservation_reasons(asked, Offer(reservation, {}, owners, {}))


def _with(free: Mapping[str, float], requests: Amounts) -> dict[str, float]:
    """Return the free amounts with those of pods that stay: they count as pods."""
    return {
        name: amount + (requests.get(name, 0) if name != PODS else 0)
        for name, amount in free.items()
    }


def _sum(amounts: Amounts, other: Amounts) -> Amounts:
    return {name: amounts.get(name, 0) + other.get(name, 0) for name in {**amounts, **other}}
