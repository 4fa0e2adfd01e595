"""The ResourceClaims of a pod, and why they keep it off all nodes. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from koord_scheduler.objects.pod import PodInfo, PodResourceClaim
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import (
    MOST_CONSUMERS,
    Consumer,
    ResourceClaim,
)
from koord_scheduler.state.pod_parts import PodPart


class PodClaim(NamedTuple):
    """A claim by namespace/name, or why it is not known; ``is_own`` if it was made from a template.

    It is ``given`` in the pod as this. It is for the pod, or for its ``group``.
    """

    key: str
    is_own: bool = False
    problem: str = ""
    given: PodResourceClaim = PodResourceClaim()
    group: Consumer | None = None


class PodClaims(NamedTuple):
    """The claims of a pod (namespace/name and uid), in its own order.

    A claim that is reserved for none but ``sole_users``, by their uids, is used by no other pod.
    """

    pod: str = ""
    uid: str = ""
    claims: tuple[PodClaim, ...] = ()
    sole_users: tuple[str, ...] = ()

    @property
    def keys(self) -> list[str]:
        """The namespace/name of each."""
        return [claim.key for claim in self.claims if claim.key]


NO_CLAIMS = PodClaims()
CLAIMS: PodPart[PodClaims] = PodPart("claims", NO_CLAIMS)


def pod_claims(pod: PodInfo) -> PodClaims:
    """The claims of a pod; those made from templates are in its status."""
    given = pod.spec.resource_claims
    if not given:
        return NO_CLAIMS
    metadata = pod.metadata
    found = (_claim(pod, one) for one in given)
    claims = tuple(one for one in found if one is not None)
    uid = metadata.uid
    return PodClaims(f"{metadata.namespace}/{metadata.name}", uid, claims, (uid,))


def unusable_claim(pod: PodClaims, objects: DeviceObjects) -> str:
    """Return why a pod with these claims can run nowhere; "" if nothing rules out all nodes."""
    for one in pod.claims:
        if problem := _unknown(one, pod, objects):
            return problem
    problems = (
        problem
        for one, claim in claims_with_objects(pod, objects)
        for problem in _unusable(claim, user(one, pod), objects)
    )
    return next(problems, "")


def claims_with_objects(
    pod: PodClaims, objects: DeviceObjects
) -> Iterator[tuple[PodClaim, ResourceClaim]]:
    """The claims of a pod that there are."""
    for one in pod.claims:
        if (claim := objects.claims.get(one.key)) is not None:
            yield one, claim


def known_claims(pod: PodClaims, objects: DeviceObjects) -> list[ResourceClaim]:
    """The claims of a pod that there are, with what its group was given and is not written yet."""
    return [
        objects.with_allocation(claim, one.group.uid) if one.group is not None else claim
        for one, claim in claims_with_objects(pod, objects)
    ]


def user(pod_claim: PodClaim, pod: PodClaims) -> str:
    """The uid of whom a claim is for."""
    return pod.uid if pod_claim.group is None else pod_claim.group.uid


def _claim(pod: PodInfo, reference: PodResourceClaim) -> PodClaim | None:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    if reference.resource_claim_name is not None:
        return PodClaim(f"{namespace}/{reference.resource_claim_name}", given=reference)
    if reference.resource_claim_template_name is None:
        unsupported = "none of the supported fields are set"
        problem = f'pod "{namespace}/{name}", spec.resourceClaim "{reference.name}": {unsupported}'
        return PodClaim("", problem=problem)
    for status in pod.status.resource_claim_statuses or ():
        if status.name == reference.name:
            made = status.resource_claim_name
            return (
                None
                if made is None
                else PodClaim(f"{namespace}/{made}", is_own=True, given=reference)
            )
    return PodClaim("", problem=f'pod "{namespace}/{name}": ResourceClaim not created yet')


def _unknown(pod_claim: PodClaim, pod: PodClaims, objects: DeviceObjects) -> str:
    if pod_claim.problem:
        return pod_claim.problem
    claim = objects.claims.get(pod_claim.key)
    if claim is None:
        return f'could not find ResourceClaim "{pod_claim.key}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'resourceclaim "{claim.metadata.name}" is being deleted'
    if pod_claim.is_own and not claim.is_controlled_by(user(pod_claim, pod)):
        kind, name = (
            ("Pod", pod.pod) if pod_claim.group is None else ("PodGroup", pod_claim.group.name)
        )
        return (
            f"ResourceClaim {pod_claim.key} was not created for {kind} {name} ({kind} is not owner)"
        )
    return ""


def _unusable(claim: ResourceClaim, uid: str, objects: DeviceObjects) -> Iterator[str]:
    status = claim.status
    if not claim.is_reserved_for(uid) and len(status.reserved_for) >= MOST_CONSUMERS:
        yield "resourceclaim in use"
    if status.allocation is not None:
        return
    if objects.is_in_flight(claim.metadata.uid, but_for=uid):
        yield f"resource claim {claim.key} is in the process of being allocated"
    for request in claim.spec.devices.requests:
        exact = [(request.name, request.exactly)] if request.exactly is not None else []
        alternatives = [(f"{request.name}/{one.name}", one) for one in request.first_available]
        if not exact and not alternatives:
            yield f"resource claim {claim.key}, request {request.name}: unknown request type"
        for name, one in exact or alternatives:
            if one.device_class_name not in objects.classes:
                yield f"request {name}: device class {one.device_class_name} does not exist"
