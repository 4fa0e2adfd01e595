"""Running pods that a reservation may take over. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.keys import ANNOTATION_PRE_ALLOCATABLE_PRIORITY, LABEL_OPERATING_MODE
from koord_model.whole_number import whole_number

from koord_scheduler.plugins.reservation.matching import Match, match_needs
from koord_scheduler.plugins.reservation.operating_pod import OPERATING
from koord_scheduler.plugins.reservation.owners import OwnedPod, PodOwner
from koord_scheduler.plugins.reservation.pod_needs import (
    ReservationNeeds,
    reservation_needs,
)
from koord_scheduler.plugins.reservation.reservation import Reservation


class PreAllocatable(NamedTuple):
    """A placed pod's conditions for reservations that may take it over.

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
    """Read a pod's conditions, for the mode Cluster by a ``label``; ``None``: never taken over.

    So it is if that cannot be read, or if the pod acts as a reservation itself.
    """
    needs = reservation_needs(annotations, labels, owners)._replace(has_allocation=False)
    if needs.problem or labels.get(LABEL_OPERATING_MODE) == OPERATING:
        return None
    priority = whole_number(annotations.get(ANNOTATION_PRE_ALLOCATABLE_PRIORITY, "")) or 0
    return PreAllocatable(needs, labels.get(label) == "true", priority)


def may_be_taken_over(
    reservation: Reservation, found: PreAllocatable, labels: Mapping[str, str]
) -> bool:
    """True if pods with these labels come into question at all."""
    policy = reservation.pre_allocation
    if policy is None:
        return False
    if policy.cluster:
        return found.for_cluster
    # An owner by labels has to mean it, though it may be another one whose pod it is.
    selectors = (matcher.selector for matcher in reservation.matchers)
    return any(selector is not None and selector.matches(labels) for selector in selectors)


def may_take_over(
    reservation: Reservation,
    found: PreAllocatable,
    pod: OwnedPod,
    requests: Amounts,
    node_labels: Mapping[str, str],
) -> bool:
    """As Koordinator's ``listPreAllocatableCandidates`` and ``checkPreAllocatableMatched``."""
    if not may_be_taken_over(reservation, found, pod.labels):
        return False
    policy, needs = reservation.pre_allocation, found.needs
    is_cluster = policy is not None and policy.cluster
    if not is_cluster and not any(matcher.matches(pod) for matcher in reservation.matchers):
        return False
    return match_needs(reservation, needs, requests, node_labels, is_new=False) is Match.MATCHED
