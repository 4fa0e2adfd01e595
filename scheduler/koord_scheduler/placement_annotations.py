"""The annotations that say what plugins reserved for a pod, or for a reservation. No IO."""

from __future__ import annotations

from koord_scheduler.devices.device_reservation import DeviceReservation
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.numa.reservation import NUMAReservation
from koord_scheduler.reservations.allocation import ReservationAllocation

_Annotating = NUMAReservation | DeviceReservation | ReservationAllocation


def placement_annotations(placement: Placement) -> dict[str, str | None]:
    """What is to be written before it is bound; an annotation that is ``None`` is removed."""
    annotations: dict[str, str | None] = {}
    for one in placement.reservations:
        if isinstance(one, _Annotating):
            annotations |= dict(one.annotations)
    return annotations
