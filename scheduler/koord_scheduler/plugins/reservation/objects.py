"""A Reservation as the scheduler reads it. No IO."""

from __future__ import annotations

from typing import Any

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.pod import Quantities

from koord_scheduler.objects.annotations import Annotations, decode_hook
from koord_scheduler.objects.metadata import AnnotatedMeta, ObjectMeta
from koord_scheduler.objects.node import Taint
from koord_scheduler.objects.pod import SchedulingSpec

PENDING, AVAILABLE, WAITING = "Pending", "Available", "Waiting"
"""Phases of reservations that have not ended."""
SUCCEEDED, FAILED = "Succeeded", "Failed"
"""Phases of those that have."""


class ReservationMeta(ObjectMeta, frozen=True, rename="camel"):
    """Names and labels, and the version that a change of the status starts from."""

    resource_version: str = ""
    annotations: Annotations | None = None


class ObjectOwner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A pod by its name; "" for any. Its kind is not looked at."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    api_version: str = ""


class ControllerOwner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Owner of pods; "" and ``None`` for any."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    namespace: str = ""
    controller: bool | None = None


class ReservationOwner(msgspec.Struct, frozen=True, rename="camel"):
    """Pods for which a reservation is; all that it says has to hold."""

    object: ObjectOwner | None = None
    controller: ControllerOwner | None = None
    label_selector: dict[str, Any] | None = None


class ReservationTemplate(msgspec.Struct, frozen=True):
    """The pod that a reservation keeps the place of."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: SchedulingSpec = SchedulingSpec()


class PreAllocationSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Pods that a reservation may take over, and if these may be several."""

    mode: str = ""
    enable_multiple: bool = False


class ReservationSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Specification of a reservation: what is reserved, and for whom."""

    template: ReservationTemplate | None = None
    owners: list[ReservationOwner] | None = None
    pre_allocation: bool = False
    pre_allocation_policy: PreAllocationSpec | None = None
    allocate_once: bool | None = None
    allocate_policy: str = ""
    unschedulable: bool = False
    taints: list[Taint] | None = None
    ttl: str | None = None
    expires: str | None = None


class ReservationCondition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One of a reservation's conditions; times are RFC 3339."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class CurrentOwner(msgspec.Struct, frozen=True, gc=False):
    """A pod that has something of a reservation."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class ReservationStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Status of a reservation."""

    phase: str = ""
    node_name: str = ""
    conditions: list[ReservationCondition] | None = None
    allocatable: Quantities | None = None
    allocated: Quantities | None = None
    current_owners: list[CurrentOwner] | None = None


class ReservationObject(msgspec.Struct, frozen=True):
    """A Reservation, in any phase."""

    metadata: ReservationMeta = ReservationMeta()
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()


_DECODER = msgspec.json.Decoder(ReservationObject, dec_hook=decode_hook)


def read_reservation_object(text: bytes) -> ReservationObject:
    """The Reservation in a JSON document.

    Raises:
        ValueError: it is not a Reservation.
    """
    return decode_view(_DECODER, text, "a valid Reservation")
