"""The annotations that say what plugins reserved for a pod, or for a reservation. No IO."""

from __future__ import annotations

from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.device_share.assumed_devices import AssumedDevices
from koord_scheduler.plugins.node_numa_resource.assumed_numa import AssumedNUMA
from koord_scheduler.plugins.reservation.allocation import ReservationAllocation

_Annotating = AssumedNUMA | AssumedDevices | ReservationAllocation


def placement_annotations(placement: Placement) -> dict[str, str | None]:
    """What is to be written before it is bound; an annotation that is ``None`` is removed."""
    annotations: dict[str, str | None] = {}
    for one in placement.reservations:
        if isinstance(one, _Annotating):
            annotations |= dict(one.annotations)
    return annotations
