"""What a pod's claims get on a node: decided, assumed, and given back. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from koord_scheduler.claims.allocation_result import allocation_result
from koord_scheduler.claims.allocator import ClaimDevices, allocate
from koord_scheduler.claims.device_objects import DeviceObjects
from koord_scheduler.claims.devices import ClaimingNode
from koord_scheduler.claims.objects import MOST_ALTERNATIVES, ResourceClaim
from koord_scheduler.claims.pod_claims import PodClaims, known_claims

Document = dict[str, Any]


class ReservedClaim(NamedTuple):
    """A claim, and its devices where it had none yet."""

    claim: ResourceClaim
    allocation: Document | None


class ClaimReservation(NamedTuple):
    """The claims that have to be written for a pod before it is bound."""

    pod: PodClaims
    claims: tuple[ReservedClaim, ...]


def find_devices(
    claims: Sequence[ResourceClaim], node: ClaimingNode, objects: DeviceObjects
) -> list[ClaimDevices]:
    """Devices for claims that have none; raises ``AllocationError`` where there are none."""
    if not claims:
        return []
    pools = objects.pools(node)
    return allocate([one.spec for one in claims], node, pools, objects.classes, objects.used)


def without_devices(pod: PodClaims, objects: DeviceObjects) -> list[ResourceClaim]:
    """The claims of a pod that are still to be allocated."""
    return [one for one in known_claims(pod, objects) if one.status.allocation is None]


def reserve_claims(pod: PodClaims, node: ClaimingNode, objects: DeviceObjects) -> ClaimReservation:
    """Allocate a pod's claims on a node: no other claim gets these devices."""
    claims = without_devices(pod, objects)
    reserved = [
        ReservedClaim(one, None)
        for one in known_claims(pod, objects)
        if one.status.allocation is not None
    ]
    for claim, found in zip(claims, find_devices(claims, node, objects), strict=True):
        result = allocation_result(found, claim.spec, node.name)
        for one, chosen in zip(result["devices"]["results"], found.devices, strict=True):
            if chosen.consumed is not None:
                one["shareID"] = str(uuid4())
        reserved.append(ReservedClaim(claim, result))
    for one in reserved:
        if one.allocation is not None:
            objects.assume(one.claim, one.allocation)
    return ClaimReservation(pod, tuple(reserved))


def release_claims(reservation: ClaimReservation, objects: DeviceObjects) -> None:
    """What was assumed is in the API, or will not be."""
    for one in reservation.claims:
        if one.allocation is not None:
            objects.release(one.claim)


def alternatives_score(claim: ResourceClaim, requests: set[str]) -> int:
    """How early the alternatives are that were taken; ``requests`` are those with devices."""
    return sum(
        MOST_ALTERNATIVES - place
        for request in claim.spec.devices.requests
        for place, one in enumerate(request.first_available)
        if f"{request.name}/{one.name}" in requests
    )
