"""A pod's reservation, and its annotation. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_model.keys import ANNOTATION_RESERVATION_ALLOCATED

from koord_scheduler.plugins.reservation.pod_needs import allocation_annotation


class ReservationAllocation(NamedTuple):
    """The reservation with this ``uid``, "" for none; ``annotations`` are to be the pod's.

    One that is ``None`` is removed.
    """

    uid: str
    annotations: tuple[tuple[str, str | None], ...]


class PreAllocatedOwners(NamedTuple):
    """Pods, by their keys and uids, that are to own a reservation with a node."""

    name: str
    uid: str
    node: str
    pods: tuple[tuple[str, str], ...]

    @property
    def written(self) -> dict[str, str | None]:
        """The annotations that each of them gets."""
        return {ANNOTATION_RESERVATION_ALLOCATED: allocation_annotation(self.name, self.uid)}


def reservation_allocation(name: str, uid: str) -> ReservationAllocation:
    """That a pod gets a reservation."""
    written = allocation_annotation(name, uid)
    return ReservationAllocation(uid, ((ANNOTATION_RESERVATION_ALLOCATED, written),))


NO_ALLOCATION_LEFT = ReservationAllocation("", ((ANNOTATION_RESERVATION_ALLOCATED, None),))
"""That a pod gets none, and that what was written of one before is removed."""
