"""Writes what ResourceClaims get, and for which pods they are, before those are bound."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import anyio
import msgspec
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS, RESOURCE_CLAIMS
from koord_kube.shared_backoff import SharedBackoff
from koord_model.times import rfc3339

from koord_scheduler.extension_points.api_services import PreBinding
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.io.look_up import ReadObject, look_up
from koord_scheduler.plugins.dynamic_resources.assumed_claims import (
    AssumedClaims,
    ReservedClaim,
    contradiction,
    release_claims,
)
from koord_scheduler.plugins.dynamic_resources.availability import ClaimDeallocation, ClaimDeletion
from koord_scheduler.plugins.dynamic_resources.binding_conditions import has_failed, is_ready
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import (
    EXTENDED_RESOURCE_CLAIM,
    FINALIZER,
    Consumer,
    ResourceClaim,
    read_device_object,
)
from koord_scheduler.plugins.dynamic_resources.shared_claims import is_needed

_ATTEMPTS = 5
_LOOK_SECONDS = 0.5

Attempt = Callable[[ResourceClaim], Awaitable[str]]
"""Writes to a claim as it is by now; returns why it cannot be, "" once it is done."""


class ClaimBinder(PreBinding):
    """Writes what a ``AssumedClaims`` says, and waits until the devices can be used.

    A claim that changed meanwhile is read again and judged anew, and so is one of which it is not
    known whether the write arrived.
    """

    handles = (AssumedClaims, ClaimDeallocation, ClaimDeletion)

    def __init__(
        self,
        write: Write,
        read: ReadObject,
        objects: DeviceObjects,
        timeout: float,
        *,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
        backoff: SharedBackoff | None = None,
        gangs: Gangs | None = None,
    ) -> None:
        """``read`` reads claims. ``timeout``: seconds for devices to be prepared.

        ``gangs`` says which pods of a group have nodes.
        """
        self._gangs = gangs
        self._write = write
        self._read = read
        self._objects = objects
        self._timeout = timeout
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._backoff = backoff or SharedBackoff()

    async def write(self, reserved: AssumedClaims, placement: Placement) -> str:
        return await self.bind(reserved, _consumer(placement))

    async def bind(self, reservation: AssumedClaims, pod: Consumer) -> str:
        """Allocate claims and reserve them for the pod; returns why not, "" once it is done.

        Raises:
            ApiError: the API server refuses it.
        """
        keys = []
        for claim in reservation.claims:
            reserved = await self._create(claim, pod) if claim.mappings else claim
            consumer = claim.group or pod
            if failure := await self._attempt(
                reserved.claim, partial(self._reserve, reserved=reserved, consumer=consumer)
            ):
                return failure
            if claim.mappings:
                await self._say_in_pod(reserved, pod)
            keys.append(reserved.claim.key)
        return await self._wait_ready(keys)

    async def take_back(self, reserved: AssumedClaims, placement: Placement) -> None:
        await self.give_back(reserved, _consumer(placement))

    async def help(self, remedy: ClaimDeallocation | ClaimDeletion) -> None:
        if isinstance(remedy, ClaimDeallocation):
            await self.deallocate(remedy.claim)
        else:
            await self.delete(remedy.claim)

    async def give_back(self, reservation: AssumedClaims, pod: Consumer) -> None:
        """A pod is not bound: others may use its claims, and those made for it go.

        As far as that works: it keeps a pod waiting only while the API server does not answer.
        """
        for claim in reservation.claims:
            if claim.group is not None and self._is_needed(claim, pod):
                continue
            if not claim.mappings:
                give_up = partial(self._give_up, consumer=claim.group or pod)
                await self._best_effort(claim.claim, give_up)
        await self._delete_left_over(pod)

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take its devices from a claim that nobody uses; without success if it has changed."""
        nothing = {"allocation": None, "reservedFor": None, "devices": None}
        try:
            await self._patch(claim, "status", {"status": nothing})
        except ApiError as error:
            self._on_warning(f"{error} (deallocation)")

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim that was made for extended resources of a pod."""
        await self._best_effort(claim, self._delete)

    def release(self, reserved: AssumedClaims) -> None:
        release_claims(reserved, self._objects)

    def _is_needed(self, reserved_claim: ReservedClaim, pod: Consumer) -> bool:
        """True if other pods of the group that a claim is reserved for have nodes."""
        key = f"{reserved_claim.claim.metadata.namespace}/{pod.name}"
        return reserved_claim.group is not None and is_needed(
            reserved_claim.group, key, self._gangs
        )

    # ---- extended resources

    async def _create(self, reserved: ReservedClaim, pod: Consumer) -> ReservedClaim:
        """The claim of a pod's extended resources, in the API."""
        await self._delete_left_over(pod)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": f"{pod.name}-extended-resources-",
                "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": msgspec.to_builtins(reserved.claim.spec),
        }
        namespace = reserved.claim.metadata.namespace
        answer = await self._write(Request("POST", RESOURCE_CLAIMS, "", namespace, body=body))
        claim = read_device_object(ResourceClaim, answer)
        self._objects.set_claim(claim.key, claim)
        return reserved._replace(claim=claim)

    async def _say_in_pod(self, reserved: ReservedClaim, pod: Consumer) -> None:
        metadata = reserved.claim.metadata
        names = "containerName", "resourceName", "requestName"
        status = {
            "requestMappings": [
                dict(zip(names, mapping, strict=True)) for mapping in reserved.mappings
            ],
            "resourceClaimName": metadata.name,
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}
        await self._write(Request("PATCH", PODS, pod.name, metadata.namespace, "status", body))

    async def _delete_left_over(self, pod: Consumer) -> None:
        key = self._objects.extended_claims.get(pod.uid)
        if key is not None:
            await self.delete(self._objects.claims[key])

    async def _delete(self, claim: ResourceClaim) -> str:
        finalizers = claim.metadata.finalizers or []
        if FINALIZER in finalizers:
            others = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
            claim = await self._patch(claim, "", {}, finalizers=others)
        known = claim.metadata
        version = {"uid": known.uid, "resourceVersion": known.resource_version}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": version}
        request = Request("DELETE", RESOURCE_CLAIMS, known.name, known.namespace, body=body)
        await self._write(request)
        return ""

    # ---- all claims

    async def _reserve(
        self, claim: ResourceClaim, reserved: ReservedClaim, consumer: Consumer
    ) -> str:
        if failure := contradiction(claim, reserved):
            return failure
        if claim.is_reserved_for(consumer.uid) and claim.status.allocation is not None:
            return ""
        finalizers = claim.metadata.finalizers or []
        if reserved.allocation is not None and FINALIZER not in finalizers:
            claim = await self._patch(claim, "", {}, finalizers=[*finalizers, FINALIZER])
        others = [one for one in claim.status.reserved_for if one.uid != consumer.uid]
        consumers = [*others, consumer]
        status: dict[str, Any] = {"reservedFor": msgspec.to_builtins(consumers)}
        if claim.status.allocation is None:
            now = rfc3339(time.time())
            status["allocation"] = {**(reserved.allocation or {}), "allocationTimestamp": now}
        await self._patch(claim, "status", {"status": status})
        return ""

    async def _give_up(self, claim: ResourceClaim, consumer: Consumer) -> str:
        """As kube-scheduler: its devices stay with the claim."""
        if claim.is_reserved_for(consumer.uid):
            others = [one for one in claim.status.reserved_for if one.uid != consumer.uid]
            body = {"status": {"reservedFor": msgspec.to_builtins(others) or None}}
            await self._patch(claim, "status", body)
        return ""

    async def _best_effort(self, claim: ResourceClaim, attempt: Attempt) -> None:
        try:
            failure = await self._attempt(claim, attempt)
        except NotFoundError:
            failure = ""
        except ApiError as error:
            failure = str(error)
        if failure:
            self._on_warning(f"{failure} (claim {claim.key}, of a pod that was not bound)")

    async def _attempt(self, known: ResourceClaim, attempt: Attempt) -> str:
        """Write to a claim, which may have changed since it was ``known``."""
        claim = self._objects.claims.get(known.key)
        failure = ""
        for _ in range(_ATTEMPTS):
            if claim is None or claim.metadata.uid != known.metadata.uid:
                return f"claim {known.key} is gone"
            try:
                return await attempt(claim)
            except NotLeadingError:
                raise
            except ApiError as error:
                if 0 < error.status < 500 and error.status != 409:
                    raise
                failure = str(error)
                claim = await self._look_up(known)
        return failure

    async def _patch(
        self, claim: ResourceClaim, subresource: str, body: dict[str, Any], **metadata: Any
    ) -> ResourceClaim:
        """Only if the claim is still as it was; returns what it is now."""
        known = claim.metadata
        version = {"uid": known.uid, "resourceVersion": known.resource_version}
        patch = {**body, "metadata": {**version, **metadata}}
        name, namespace = known.name, known.namespace
        request = Request("PATCH", RESOURCE_CLAIMS, name, namespace, subresource, patch)
        return self._learn(await self._write(request))

    async def _look_up(self, claim: ResourceClaim) -> ResourceClaim | None:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        why = "a write without a good answer"
        found = await look_up(self._read, name, namespace, self._on_warning, why, self._backoff)
        return self._learn(msgspec.json.encode(found)) if found is not None else None

    def _learn(self, raw: bytes) -> ResourceClaim:
        """The watch says it later: until then these devices must not seem free."""
        claim = read_device_object(ResourceClaim, raw)
        if claim.key in self._objects.claims:
            self._objects.set_claim(claim.key, claim)
        return claim

    async def _wait_ready(self, keys: Iterable[str]) -> str:
        end = self._monotonic() + self._timeout
        for key in keys:
            while True:
                claim = self._objects.claims.get(key)
                if claim is None:
                    return f"claim {key} is gone"
                if has_failed(claim):
                    return f"a device of claim {key} could not be prepared"
                if is_ready(claim):
                    break
                if self._monotonic() >= end:
                    return f"devices of claim {key} not prepared within {self._timeout:.0f} s"
                await anyio.sleep(_LOOK_SECONDS)
        return ""


def _consumer(placement: Placement) -> Consumer:
    name = placement.pod.key.partition("/")[2]
    return Consumer(resource="pods", name=name, uid=placement.pod.uid)
