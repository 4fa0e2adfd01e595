"""Pods that act as reservations: they run, and their room is for others. No IO."""

from __future__ import annotations

import msgspec
from koord_model.demand import Amounts
from koord_model.keys import (
    ANNOTATION_RESERVATION_CURRENT_OWNER,
    ANNOTATION_RESERVATION_OWNERS,
    LABEL_OPERATING_MODE,
)

from koord_scheduler.objects.annotations import NO_ANNOTATIONS
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.plugins.reservation.objects import AVAILABLE, ReservationOwner
from koord_scheduler.plugins.reservation.owners import owner_matchers
from koord_scheduler.plugins.reservation.reservation import ALIGNED, Reservation

OPERATING = "Reservation"
"""The operating mode of such pods."""
_OWNERS = msgspec.json.Decoder(list[ReservationOwner] | None)


def is_operating(pod: PodInfo) -> bool:
    """True if a pod says that it acts as a reservation."""
    return (pod.metadata.labels or {}).get(LABEL_OPERATING_MODE) == OPERATING


def operating_reservation(pod: PodInfo, requests: Amounts) -> Reservation | None:
    """Return a placed pod's reservation: of what it ``requests``, for one other pod.

    ``None`` while it does not run, or is not ready, or once it has an owner.
    """
    metadata = pod.metadata
    annotations = metadata.annotations or NO_ANNOTATIONS
    if not _is_ready(pod) or annotations.get(ANNOTATION_RESERVATION_CURRENT_OWNER):
        return None
    problem, owners = "", list[ReservationOwner]()
    try:
        owners = _OWNERS.decode(annotations.get(ANNOTATION_RESERVATION_OWNERS) or "null") or []
        matchers = owner_matchers(owners)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        key = ANNOTATION_RESERVATION_OWNERS
        problem, matchers = f"the annotation {key} cannot be read: {error}", ()
    return Reservation(
        metadata.name,
        metadata.uid,
        AVAILABLE,
        pod.spec.node_name,
        requests,
        frozenset(requests),
        ALIGNED,
        unschedulable=metadata.deletion_timestamp is not None,
        matchers=matchers,
        labels=metadata.labels or {},
        problem=problem,
        namespace=metadata.namespace,
    )


def _is_ready(pod: PodInfo) -> bool:
    conditions = pod.status.conditions or ()
    ready = any(
        condition.type == "Ready" and condition.status == "True" for condition in conditions
    )
    return ready and pod.status.phase == "Running" and bool(pod.spec.node_name)
