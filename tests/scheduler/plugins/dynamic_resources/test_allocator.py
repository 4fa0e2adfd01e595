"""What recorded clusters do not show of the allocator, or where it differs on purpose."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import msgspec
import pytest
from koord_scheduler.plugins.dynamic_resources.alike_devices import AlikeDevices
from koord_scheduler.plugins.dynamic_resources.allocator import NOT_ALLOCATED, TIMED_OUT
from koord_scheduler.plugins.dynamic_resources.assumed_claims import find_devices
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode
from koord_scheduler.plugins.dynamic_resources.requests import AllocationError

from tests.support.clusters.devices import random_device_cluster

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


def device_objects(given: dict[str, Any]) -> DeviceObjects:
    """What a random cluster has."""
    objects = DeviceObjects()
    for one in given["classes"]:
        objects.set_class(one["metadata"]["name"], msgspec.convert(one, DeviceClass))
    for one in given["slices"]:
        objects.set_slice(one["metadata"]["name"], msgspec.convert(one, ResourceSlice))
    for one in given["claims"]:
        made = msgspec.convert(one, ResourceClaim)
        objects.set_claim(made.key, made)
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


def test_devices_that_are_alike_are_tried_once() -> None:
    objects = cluster([device(f"d{at:02}", at % 2) for at in range(64)])
    never = {"selectors": [{"cel": {"expression": "false"}}]}
    missing = {"name": "y", "exactly": {"deviceClassName": "any", "count": 1, **never}}
    assert found(objects, claim(request("x", 8), missing)) == NOT_ALLOCATED


@pytest.mark.parametrize("seed", range(60))
def test_leaving_alike_devices_out_changes_no_answer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = random_device_cluster(Random(f"alike {seed}"))
    objects = device_objects(given)
    claims = [one for one in objects.claims.values() if one.status.allocation is None]
    nodes = [
        ClaimingNode(one["metadata"]["name"], one["metadata"]["labels"]) for one in given["nodes"]
    ]

    def answers() -> list[object]:
        return [answer([first.spec, other.spec], node) for first, other in pairs for node in nodes]

    def answer(specs: list[ResourceClaimSpec], node: ClaimingNode) -> object:
        try:
            devices = find_devices(specs, node, objects)
        except AllocationError as error:
            return str(error)
        return [(one.alternative.name, one.device.id) for each in devices for one in each.devices]

    pairs = [*itertools.pairwise(claims)]
    with_all = answers()
    monkeypatch.setattr(AlikeDevices, "kind", lambda self, one: one.id)
    assert answers() == with_all
