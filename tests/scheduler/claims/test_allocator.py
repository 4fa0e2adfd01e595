"""What recorded clusters do not show of the allocator, or where it differs on purpose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_scheduler.claims.allocator import NOT_ALLOCATED, TIMED_OUT
from koord_scheduler.claims.device_objects import DeviceObjects
from koord_scheduler.claims.devices import ClaimingNode
from koord_scheduler.claims.objects import DeviceClass, ResourceClaim, ResourceSlice
from koord_scheduler.claims.requests import AllocationError
from koord_scheduler.claims.reservation import find_devices

NODE = ClaimingNode("n1", {})


def device(name: str, value: int = 0, memory: int = 0, **more: Any) -> dict[str, Any]:
    counters = {"counterSet": "card", "counters": {"memory": {"value": str(memory)}}}
    consumed = {"consumesCounters": [counters]} if memory else {}
    return {"name": name, "attributes": {"value": {"int": value}}, **consumed, **more}


def cluster(
    devices: list[dict[str, Any]],
    memory: int = 0,
    elsewhere: list[dict[str, Any]] | None = None,
) -> DeviceObjects:
    """One pool of n1, and of n2 with what is ``elsewhere``; its devices share ``memory``."""
    objects = DeviceObjects()
    objects.set_class("any", DeviceClass())
    count = 1 + bool(memory) + bool(elsewhere)
    common = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": count}}
    where = {"nodeName": "n1"}
    sets = [{"name": "card", "counters": {"memory": {"value": str(memory)}}}]
    pieces = [{**common, **where, "devices": devices}]
    pieces += [{**common, **where, "sharedCounters": sets}] if memory else []
    pieces += [{**common, "nodeName": "n2", "devices": elsewhere}] if elsewhere else []
    for place, one in enumerate(pieces):
        name = f"s{place}"
        given = {"metadata": {"name": name}, "spec": one}
        objects.set_slice(name, msgspec.convert(given, ResourceSlice))
    return objects


def claim(*requests: dict[str, Any], **more: Any) -> ResourceClaim:
    spec = {"devices": {"requests": [*requests], **more}}
    metadata = {"name": "c", "namespace": "x", "uid": "u"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ResourceClaim)


def request(name: str = "r", count: int = 1) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "any", "count": count}}


def found(objects: DeviceObjects, wanted: ResourceClaim) -> list[str] | str:
    try:
        [devices] = find_devices([wanted.spec], NODE, objects)
    except AllocationError as error:
        return str(error)
    return [one.device.id.device for one in devices.devices]


@pytest.mark.parametrize(("taken", "expected"), [("there", NOT_ALLOCATED), ("", ["here"])])
def test_counters_are_shared_with_devices_of_other_nodes(
    taken: str, expected: list[str] | str
) -> None:
    objects = cluster([device("here", memory=2)], 4, [device("there", memory=3)])
    if taken:
        results = [{"request": "r", "driver": "d", "pool": "p", "device": taken}]
        other = {"metadata": {"name": "o", "namespace": "x", "uid": "o"}}
        status = {"allocation": {"devices": {"results": results}}}
        objects.set_claim("x/o", msgspec.convert({**other, "status": status}, ResourceClaim))
    assert found(objects, claim(request())) == expected


@pytest.mark.parametrize(
    ("concerned", "expected"), [(["a/s"], ["x", "z"]), (["a"], ["x", "z"]), (["a/t"], ["x", "y"])]
)
def test_a_constraint_may_name_an_alternative(concerned: list[str], expected: list[str]) -> None:
    objects = cluster([device("x", 1), device("y", 2), device("z", 1)])
    alternative = {"name": "s", "deviceClassName": "any", "count": 2}
    constraint = {"matchAttribute": "d/value", "requests": concerned}
    wanted = claim({"name": "a", "firstAvailable": [alternative]}, constraints=[constraint])
    assert found(objects, wanted) == expected


def test_all_devices_of_a_request_are_distinct() -> None:
    objects = cluster([device("a", 1), device("b", 2), device("c", 1), device("d", 3)])
    wanted = claim(request(count=3), constraints=[{"distinctAttribute": "d/value"}])
    assert found(objects, wanted) == ["a", "b", "d"]


def test_counters_are_given_back_where_a_constraint_forbids_the_device() -> None:
    devices = [device("a", 1, 1), device("b", 2, 3), device("c", 1, 3)]
    objects = cluster(devices, memory=4)
    wanted = claim(request(count=2), constraints=[{"matchAttribute": "d/value"}])
    assert found(objects, wanted) == ["a", "c"]


def test_a_search_ends() -> None:
    devices = [device(f"d{at:02}", at) for at in range(24)]
    pairs = [{"matchAttribute": "d/value", "requests": ["y", "z"]}]
    wanted = claim(request("x", 12), request("y"), request("z"), constraints=pairs)
    assert found(cluster(devices), wanted) == TIMED_OUT
