"""Parts of pods about reservations. No IO."""

from __future__ import annotations

from koord_scheduler.plugins.reservation.pod_needs import NO_RESERVATION_NEEDS, ReservationNeeds
from koord_scheduler.plugins.reservation.pre_allocatable import PreAllocatable
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.pod_parts import PodPart

RESERVATION_NEEDS: PodPart[ReservationNeeds] = PodPart("reservation", NO_RESERVATION_NEEDS)
RESERVATION: PodPart[str] = PodPart("uid of its reservation", "")
PRE_ALLOCATABLE: PodPart[PreAllocatable | None] = PodPart("may be taken over", None)
OPERATES: PodPart[Reservation | None] = PodPart("acts as a reservation", None)
