"""Which pods that run already a reservation may take over. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.keys import ANNOTATION_PRE_ALLOCATABLE_PRIORITY

from koord_scheduler.objects.node_selector import whole_number
from koord_scheduler.reservations.matching import Match, match_needs
from koord_scheduler.reservations.owners import OwnedPod, PodOwner
from koord_scheduler.reservations.pod_needs import (
    ReservationNeeds,
    reservation_needs,
)
from koord_scheduler.reservations.reservation import Reservation


class PreAllocatable(NamedTuple):
    """What a pod with a node says of reservations that may take it over.

    ``for_cluster``: all of the mode Cluster may; they take those with the highest ``priority``.
    """

    needs: ReservationNeeds
    for_cluster: bool = False
    priority: int = 0


def pre_allocatable(
    label: str,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    owners: Sequence[PodOwner],
) -> PreAllocatable | None:
    """What a pod says, for the mode Cluster by a ``label``; ``None`` if that cannot be read."""
    needs = reservation_needs(annotations, labels, owners)._replace(has_allocation=False)
    if needs.problem:
        return None
    priority = whole_number(annotations.get(ANNOTATION_PRE_ALLOCATABLE_PRIORITY, "")) or 0
    return PreAllocatable(needs, labels.get(label) == "true", priority)


def may_take_over(
    reservation: Reservation,
    found: PreAllocatable,
    pod: OwnedPod,
    requests: Amounts,
    node_labels: Mapping[str, str],
) -> bool:
    """As Koordinator's ``listPreAllocatableCandidates`` and ``checkPreAllocatableMatched``.

    Without the mode Cluster an owner by labels has to mean the pod, too.
    """
    policy = reservation.pre_allocation
    if policy is None or reservation.problem:
        return False
    if policy.cluster:
        if not found.for_cluster:
            return False
    elif not _is_owner(reservation, pod):
        return False
    needs = found.needs
    return match_needs(reservation, needs, requests, node_labels, is_new=False) is Match.MATCHED


def _is_owner(reservation: Reservation, pod: OwnedPod) -> bool:
    matchers = reservation.matchers
    by_labels = (one.selector for one in matchers if one.selector is not None)
    return any(one.matches(pod.labels) for one in by_labels) and any(
        one.matches(pod) for one in matchers
    )
