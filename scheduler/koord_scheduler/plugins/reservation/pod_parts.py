"""Parts of pods about reservations. No IO."""

from __future__ import annotations

from koord_model.keys import (
    ANNOTATION_EXACT_MATCH_RESERVATION,
    ANNOTATION_PRE_ALLOCATABLE_PRIORITY,
    ANNOTATION_RESERVATION_AFFINITY,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESERVATION_CURRENT_OWNER,
    ANNOTATION_RESERVATION_OWNERS,
)

from koord_scheduler.objects.annotations import read_annotations
from koord_scheduler.plugins.reservation.pod_needs import NO_RESERVATION_NEEDS, ReservationNeeds
from koord_scheduler.plugins.reservation.pre_allocatable import PreAllocatable
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.pod_parts import PodPart

RESERVATION_NEEDS: PodPart[ReservationNeeds] = PodPart("reservation", NO_RESERVATION_NEEDS)
RESERVATION: PodPart[str] = PodPart("uid of its reservation", "")
PRE_ALLOCATABLE: PodPart[PreAllocatable | None] = PodPart("may be taken over", None)
OPERATES: PodPart[Reservation | None] = PodPart("acts as a reservation", None)

read_annotations(
    ANNOTATION_EXACT_MATCH_RESERVATION,
    ANNOTATION_PRE_ALLOCATABLE_PRIORITY,
    ANNOTATION_RESERVATION_AFFINITY,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESERVATION_CURRENT_OWNER,
    ANNOTATION_RESERVATION_OWNERS,
)
