"""Devices of a pod's claims on a node: decided, assumed, and given back. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from koord_scheduler.plugins.dynamic_resources.allocation_result import allocation_result
from koord_scheduler.plugins.dynamic_resources.allocator import ClaimDevices, SearchBudget, allocate
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.extended_resources import (
    ExtendedClaim,
    RequestMapping,
)
from koord_scheduler.plugins.dynamic_resources.objects import (
    MOST_ALTERNATIVES,
    Allocation,
    ClaimMeta,
    Consumer,
    ResourceClaim,
    ResourceClaimSpec,
)
from koord_scheduler.plugins.dynamic_resources.pod_claims import (
    PodClaims,
    claims_with_objects,
    known_claims,
)
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode

Document = dict[str, Any]


class ReservedClaim(NamedTuple):
    """A claim, and its devices where it had none yet.

    With ``mappings`` it is for extended resources, and has to be created. With a ``group`` it is
    reserved for that, in place of the pod.
    """

    claim: ResourceClaim
    allocation: Document | None
    mappings: tuple[RequestMapping, ...] = ()
    group: Consumer | None = None


class AssumedClaims(NamedTuple):
    """The claims that have to be written for a ``pod``, by its uid, before it is bound."""

    claims: tuple[ReservedClaim, ...]
    pod: str = ""


def find_devices(
    claims: Sequence[ResourceClaimSpec],
    node: ClaimingNode,
    objects: DeviceObjects,
    budget: SearchBudget | None = None,
) -> list[ClaimDevices]:
    """Devices for claims that have none; raises ``AllocationError`` where there are none."""
    if not claims:
        return []
    pools = objects.pools(node)
    return allocate(claims, node, pools, objects.classes, objects.used, budget or SearchBudget())


def without_devices(pod: PodClaims, objects: DeviceObjects) -> list[ResourceClaim]:
    """The claims of a pod that are still to be allocated."""
    return [claim for claim in known_claims(pod, objects) if claim.status.allocation is None]


def reserve_claims(
    pod: PodClaims,
    node: ClaimingNode,
    objects: DeviceObjects,
    extended: ExtendedClaim | None = None,
    namespace: str = "",
) -> AssumedClaims:
    """Allocate a pod's claims on a node: no other claim gets these devices.

    ``extended`` is one to create in the pod's ``namespace``.
    """
    known = [
        _reserved(claim, one.group, objects) for one, claim in claims_with_objects(pod, objects)
    ]
    reserved = [one for one in known if _has_devices(one)]
    claims = [one for one in known if not _has_devices(one)]
    if extended is not None:
        made = _not_created(extended.spec, namespace)
        claims.append(ReservedClaim(made, None, extended.mappings))
    devices = find_devices([one.claim.spec for one in claims], node, objects)
    for one, found in zip(claims, devices, strict=True):
        reserved.append(one._replace(allocation=_allocation(found, one.claim.spec, node.name)))
    for one in reserved:
        if one.mappings:
            objects.set_claim(one.claim.key, one.claim)
        if one.allocation is not None:
            group = one.group.uid if one.group is not None else ""
            objects.assume(one.claim, one.allocation, pod.uid, group)
    return AssumedClaims(tuple(reserved), pod.uid)


def _reserved(
    claim: ResourceClaim, group: Consumer | None, objects: DeviceObjects
) -> ReservedClaim:
    """A claim with what it has, which other pods of its group may have been given just now."""
    is_written = claim.status.allocation is not None or group is None
    given = None if is_written or not group else objects.in_flight(claim.metadata.uid, group.uid)
    return ReservedClaim(claim, given, group=group)


def _has_devices(reserved_claim: ReservedClaim) -> bool:
    return (
        reserved_claim.claim.status.allocation is not None or reserved_claim.allocation is not None
    )


def _allocation(found: ClaimDevices, spec: ResourceClaimSpec, node: str) -> Document:
    result = allocation_result(found, spec, node)
    for one, chosen in zip(result["devices"]["results"], found.devices, strict=True):
        if chosen.consumed is not None:
            one["shareID"] = str(uuid4())
    return result


def _not_created(spec: ResourceClaimSpec, namespace: str) -> ResourceClaim:
    """A claim that is only here; no claim of the API can have its name."""
    uid = str(uuid4())
    name = f"<extended-resources-{uid}>"
    return ResourceClaim(ClaimMeta(name=name, namespace=namespace, uid=uid), spec)


def release_claims(reservation: AssumedClaims, objects: DeviceObjects) -> None:
    """Release the assumptions that are in the API, or will not be."""
    for claim in reservation.claims:
        if claim.allocation is not None:
            objects.release(claim.claim, reservation.pod)
        if claim.mappings:
            objects.remove_claim(claim.claim.key)


def alternatives_score(claim: ResourceClaimSpec, requests: set[str]) -> int:
    """Score the order of the alternatives that were taken; ``requests`` are those with devices."""
    return sum(
        MOST_ALTERNATIVES - place
        for request in claim.devices.requests
        for place, one in enumerate(request.first_available)
        if f"{request.name}/{one.name}" in requests
    )


def contradiction(claim: ResourceClaim, reserved: ReservedClaim) -> str:
    """Return why the decision about a claim does not hold any more."""
    if claim.metadata.deletion_timestamp is not None:
        return f"claim {claim.key} got deleted in the meantime"
    now = claim.status.allocation
    if reserved.allocation is None:
        return "" if now is not None else f"claim {claim.key} got deallocated in the meantime"
    if now is not None and _devices(now) != _devices(
        msgspec.convert(reserved.allocation, Allocation)
    ):
        return f"claim {claim.key} got allocated elsewhere in the meantime"
    return ""


def _devices(allocation: Allocation) -> list[tuple[str | None, ...]]:
    return [
        (result.request, result.driver, result.pool, result.device, result.share_id)
        for result in allocation.devices.results
    ]
