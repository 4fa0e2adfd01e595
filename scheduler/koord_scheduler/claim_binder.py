"""Writes what ResourceClaims get, and for which pods they are, before those are bound."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
import msgspec
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import RESOURCE_CLAIMS
from koord_model.times import rfc3339

from koord_scheduler.binder import Write
from koord_scheduler.claims.binding_conditions import has_failed, is_ready
from koord_scheduler.claims.device_objects import DeviceObjects
from koord_scheduler.claims.objects import (
    FINALIZER,
    Allocation,
    ResourceClaim,
    read_device_object,
)
from koord_scheduler.claims.pod_claims import PodClaims
from koord_scheduler.claims.reservation import ClaimReservation, ReservedClaim, release_claims

ReadClaim = Callable[[str, str], Awaitable[Object]]
"""A claim by its name and namespace."""

_ATTEMPTS = 5
_LOOK_SECONDS = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class ClaimBinder:
    """Writes what a ``ClaimReservation`` says, and waits until the devices can be used.

    A claim that changed meanwhile is read again and judged anew, and so is one of which it is not
    known whether the write arrived.
    """

    def __init__(
        self,
        write: Write,
        read: ReadClaim,
        objects: DeviceObjects,
        timeout: float,
        *,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout``: seconds for devices to be prepared."""
        self._write = write
        self._read = read
        self._objects = objects
        self._timeout = timeout
        self._on_warning = on_warning
        self._monotonic = monotonic

    async def bind(self, reservation: ClaimReservation) -> str:
        """Allocate claims and reserve them for the pod; returns why not, "" once it is done.

        Raises:
            ApiError: the API server refuses it.
        """
        for one in reservation.claims:
            if failure := await self._reserve(one, reservation.pod):
                return failure
        return await self._wait_ready([one.claim.key for one in reservation.claims])

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take its devices from a claim that nobody uses; without success if it has changed."""
        nothing = {"allocation": None, "reservedFor": None, "devices": None}
        try:
            await self._patch(claim, "status", {"status": nothing})
        except ApiError as error:
            self._on_warning(f"{error} (deallocation)")

    def release(self, reservations: Iterable[object]) -> None:
        """What was assumed for a pod is in the API by now, or will not be."""
        for one in reservations:
            if isinstance(one, ClaimReservation):
                release_claims(one, self._objects)

    async def _reserve(self, reserved: ReservedClaim, pod: PodClaims) -> str:
        key = reserved.claim.key
        claim = self._objects.claims.get(key)
        failure = ""
        for _ in range(_ATTEMPTS):
            if claim is None or claim.metadata.uid != reserved.claim.metadata.uid:
                return f"claim {key} is gone"
            if failure := _contradiction(claim, reserved):
                return failure
            if claim.is_reserved_for(pod.uid) and claim.status.allocation is not None:
                return ""
            try:
                await self._write_claim(claim, reserved, pod)
            except NotLeadingError:
                raise
            except ApiError as error:
                if 0 < error.status < 500 and error.status not in (409, 429):
                    raise
                failure = str(error)
                await anyio.sleep(error.retry_after if error.status == 429 else 0)
                claim = await self._look_up(reserved.claim)
            else:
                return ""
        return failure

    async def _write_claim(
        self, claim: ResourceClaim, reserved: ReservedClaim, pod: PodClaims
    ) -> None:
        finalizers = claim.metadata.finalizers or []
        if reserved.allocation is not None and FINALIZER not in finalizers:
            claim = await self._patch(claim, "", {}, finalizers=[*finalizers, FINALIZER])
        name = pod.pod.partition("/")[2]
        consumer = {"resource": "pods", "name": name, "uid": pod.uid}
        status: dict[str, Any] = {
            "reservedFor": [*msgspec.to_builtins(claim.status.reserved_for), consumer]
        }
        if claim.status.allocation is None:
            now = rfc3339(time.time())
            status["allocation"] = {**(reserved.allocation or {}), "allocationTimestamp": now}
        await self._patch(claim, "status", {"status": status})

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
        """What a claim is now, however long it takes to hear; ``None``: it is gone."""
        pause = _FIRST_PAUSE
        while True:
            try:
                found = await self._read(claim.metadata.name, claim.metadata.namespace)
            except NotFoundError:
                return None
            except ApiError as error:
                self._on_warning(f"{error} (after a write without a good answer)")
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            return self._learn(msgspec.json.encode(found))

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


def _contradiction(claim: ResourceClaim, reserved: ReservedClaim) -> str:
    """Why what was decided of a claim does not hold any more."""
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
        (one.request, one.driver, one.pool, one.device, one.share_id)
        for one in allocation.devices.results
    ]
