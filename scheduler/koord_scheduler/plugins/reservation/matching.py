"""Right of a pod to use a reservation, whatever is left of it. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from koord_model.demand import Amounts

from koord_scheduler.objects.tolerations import first_untolerated
from koord_scheduler.plugins.reservation.owners import OwnedPod
from koord_scheduler.plugins.reservation.pod_needs import ReservationNeeds
from koord_scheduler.plugins.reservation.reservation import Reservation


class Match(Enum):
    """Right of a pod to use a reservation, or the first reason against it.

    Values are what Koordinator says behind "Reservation(s) ".
    """

    MATCHED = "matched"
    OWNER = "matched owner"
    NAME = "didn't match the requested reservation name"
    UNSCHEDULABLE = "is unschedulable"
    TAINT = "had untolerated taint"
    AFFINITY = "didn't match affinity rules"
    EXACT = "is not exact matched"


def match(
    reservation: Reservation,
    needs: ReservationNeeds,
    pod: OwnedPod,
    requests: Amounts,
    node_labels: Mapping[str, str],
) -> Match:
    """Match a pod with an available reservation; the labels are those of its node.

    As Koordinator's ``checkReservationMatchedOrIgnored``: to a pod that names the reservation
    taints, labels, and that it is not for new pods do not matter.
    """
    if needs.reserve is not None or reservation.problem:
        return Match.OWNER
    if needs.ignores:
        return Match.MATCHED
    if not any(matcher.matches(pod) for matcher in reservation.matchers):
        return Match.OWNER
    return match_needs(reservation, needs, requests, node_labels)


def match_needs(
    reservation: Reservation,
    needs: ReservationNeeds,
    requests: Amounts,
    node_labels: Mapping[str, str],
    *,
    is_new: bool = True,
) -> Match:
    """Match a reservation with a pod's needs that it is for; ``is_new``: the pod has no node."""
    affinity = needs.affinity
    if affinity is not None and affinity.name:
        if affinity.name != reservation.name:
            return Match.NAME
    else:
        tolerates = affinity is not None and affinity.tolerates_unschedulable
        if is_new and reservation.unschedulable and not tolerates:
            return Match.UNSCHEDULABLE
        tolerations = affinity.tolerations if affinity is not None else None
        if tolerations is not None and first_untolerated(reservation.taints, tolerations):
            return Match.TAINT
        labels = {**node_labels, **reservation.labels}
        if affinity is not None and not affinity.means(reservation.name, labels):
            return Match.AFFINITY
    is_exact = is_exact_match(needs.exact, requests, reservation.allocatable)
    return Match.MATCHED if is_exact else Match.EXACT


def is_exact_match(exact: tuple[str, ...], requests: Amounts, allocatable: Amounts) -> bool:
    """True if the reserved amounts of these resources are those that a pod asks for.

    As Koordinator's ``ExactMatchReservation``: a resource that neither has ends the comparison.
    """
    for name in exact:
        if name not in allocatable and name not in requests:
            return True
        if name not in allocatable or name not in requests:
            return False
        if allocatable[name] != requests[name]:
            return False
    return True
