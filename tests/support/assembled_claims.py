"""Devices by claims in an assembled cluster: documents, and what becomes of them with pods.

A double of what the binder writes, and of the controller that takes pods that are gone out of
``reservedFor``; it follows their rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.dynamic_resources.assumed_claims import AssumedClaims, contradiction
from koord_scheduler.plugins.dynamic_resources.objects import ResourceClaim, read_device_object
from msgspec import json

Document = dict[str, Any]

DEVICES = 1
DEVICE_CLASS: Document = {"metadata": {"name": "accel"}, "spec": {}}


def resource_slice(node: str) -> Document:
    """A node's devices."""
    spec = {
        "driver": "accel.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{number}"} for number in range(DEVICES)],
    }
    return {"metadata": {"name": node}, "spec": spec}


def claim(name: str, rng: Random) -> Document:
    """A claim of some devices of a node."""
    exactly = {"deviceClassName": "accel", "count": rng.choice([1, 1, 1, 2])}
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": "1"}
    return {
        "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {},
    }


def with_claim(pod: Document, name: str) -> Document:
    """A pod that uses a claim."""
    used = [{"name": "devices", "resourceClaimName": name}]
    return {**pod, "spec": {**pod["spec"], "resourceClaims": used}}


def claims_of(pod: Document) -> list[str]:
    """The keys of the claims that a pod uses."""
    return [f"shop/{one['resourceClaimName']}" for one in pod["spec"].get("resourceClaims", ())]


def bound_claims(
    placement: Placement, pod: Document, claims: Mapping[str, Document]
) -> dict[str, Document] | None:
    """The claims that a pod gets with its node; ``None`` where they are not as decided any more."""
    written = {}
    for reserved in _reserved(placement):
        document = claims.get(reserved.claim.key)
        if document is None:
            return None
        now = read_device_object(ResourceClaim, json.encode(document))
        if contradiction(now, reserved):
            return None
        status = document["status"]
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        used_by = [*status.get("reservedFor", ()), {"resource": "pods", "name": name, "uid": uid}]
        allocation = status.get("allocation") or reserved.allocation
        status = {"allocation": allocation, "reservedFor": used_by}
        written[reserved.claim.key] = {**document, "status": status}
    return written


def without_pod(pod: Document, claims: Mapping[str, Document]) -> dict[str, Document]:
    """The claims that a pod used which is gone; without any users they have no devices."""
    left = {}
    for key in claims_of(pod):
        document = claims.get(key)
        if document is not None:
            users = document["status"].get("reservedFor", ())
            others = [one for one in users if one["uid"] != pod["metadata"]["uid"]]
            status = {**document["status"], "reservedFor": others} if others else {}
            left[key] = {**document, "status": status}
    return left


def allocations(
    claims: Mapping[str, Document], binding: Iterable[Placement]
) -> dict[str, list[tuple[str, str]]]:
    """The devices of each claim, by pool and name: written, or on their way."""
    found = {
        one.claim.key: one.allocation
        for placement in binding
        for one in _reserved(placement)
        if one.allocation is not None
    }
    for key, document in claims.items():
        if document["status"].get("allocation"):
            found[key] = document["status"]["allocation"]
    return {
        key: [(one["pool"], one["device"]) for one in given["devices"]["results"]]
        for key, given in found.items()
    }


def _reserved(placement: Placement) -> Iterator[Any]:
    for one in placement.reserved:
        if isinstance(one, AssumedClaims):
            yield from one.claims
