"""Requests that write what became of one reservation. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import RESERVATIONS
from koord_model.times import rfc3339

from koord_scheduler.plugins.reservation.objects import AVAILABLE
from koord_scheduler.plugins.reservation.reservation import Reservation


class Room(Protocol):
    """A reservation that is to get a node; ``allocatable`` is in quantities."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def uid(self) -> str:
        """Its uid."""
        ...

    @property
    def resource_version(self) -> str:
        """The version that was decided about."""
        ...

    @property
    def allocatable(self) -> Mapping[str, str]:
        """The amounts that it keeps."""
        ...


def available_patch(room: Room, node: str, at: float) -> Request:
    """Say that a reservation has a node, and from now on what its pods are allocated.

    ``at`` is in seconds since the epoch. It has to be the reservation that was decided about: one
    that expired meanwhile has another version.
    """
    status = {
        "phase": AVAILABLE,
        "nodeName": node,
        "allocatable": dict(room.allocatable),
        "conditions": [
            _condition("Scheduled", True, "Scheduled", "", at),
            _condition("Ready", True, "Available", "", at),
        ],
    }
    return _status_patch(room, status, room.resource_version)


def annotations_of_reservation(room: Room, annotations: Mapping[str, str | None]) -> Request:
    """Set annotations of the reservation that was decided about; ``None`` removes one."""
    metadata = {"uid": room.uid, "annotations": annotations}
    body = {"metadata": metadata | {"resourceVersion": room.resource_version}}
    return Request("PATCH", RESERVATIONS, room.name, body=body)


def unschedulable_patch(room: Room, reason: str, message: str, at: float) -> Request:
    """Say why a reservation has no node."""
    return _status_patch(
        room, {"conditions": [_condition("Scheduled", False, reason, message, at)]}
    )


def status_patch(reservation: Reservation, status: Mapping[str, Any]) -> Request:
    """Change the status of a reservation that is as it was when that was decided."""
    metadata = {"uid": reservation.uid, "resourceVersion": reservation.resource_version}
    body = {"metadata": metadata, "status": status}
    return Request("PATCH", RESERVATIONS, reservation.name, "", "status", body)


def removal(reservation: Reservation) -> Request:
    """Delete a reservation, and no other of its name."""
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": reservation.uid, "resourceVersion": reservation.resource_version},
    }
    return Request("DELETE", RESERVATIONS, reservation.name, body=body)


def _condition(kind: str, holds: bool, reason: str, message: str, at: float) -> dict[str, str]:
    now = rfc3339(at)
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }


def _status_patch(room: Room, status: Mapping[str, Any], version: str = "") -> Request:
    metadata = {"uid": room.uid} | ({"resourceVersion": version} if version else {})
    body = {"metadata": metadata, "status": status}
    return Request("PATCH", RESERVATIONS, room.name, "", "status", body)
