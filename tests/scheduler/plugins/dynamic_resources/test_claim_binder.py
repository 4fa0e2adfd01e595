"""A claim gets its devices and its pod, or surely not, whatever the API server answers."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, Object
from koord_kube.protocol.request import Request
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.gangs.member import GangMember
from koord_scheduler.plugins.dynamic_resources import binder as module
from koord_scheduler.plugins.dynamic_resources.assumed_claims import AssumedClaims, ReservedClaim
from koord_scheduler.plugins.dynamic_resources.binder import ClaimBinder
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import (
    FINALIZER,
    Consumer,
    ResourceClaim,
    read_device_object,
)
from koord_scheduler.plugins.dynamic_resources.pool_devices import DeviceId
from koord_scheduler.state.cluster_state import ClusterState

from tests.support.merge_patch import merged

POD = Consumer(resource="pods", name="p", uid="uid-p")
DEVICE = DeviceId("d", "n1", "gpu0")
UNKNOWN = ApiError("no answer")


def results(device: str, **more: Any) -> Object:
    one = {"request": "r", "driver": "d", "pool": "n1", "device": device, **more}
    return {"devices": {"results": [one]}}


class Api:
    """One claim, by the API server's rules about versions; ``failures`` come first.

    A failure is (error, whether the write arrived all the same, what somebody else does then).
    """

    def __init__(self, *failures: tuple[ApiError, bool, Object], **status: Any) -> None:
        self.claim: Object | None = {
            "metadata": {"name": "c", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
            "spec": {"devices": {"requests": []}},
            "status": status,
        }
        self.failures = list(failures)
        self.sent: list[Request] = []

    async def write(self, request: Request) -> bytes:
        self.sent.append(request)
        error, arrives, meanwhile = self.failures.pop(0) if self.failures else (None, True, {})
        if arrives:
            self._apply(request)
        if meanwhile:
            self._change(meanwhile)
        if error is not None:
            raise error
        return json.dumps(self.claim).encode()

    async def read(self, name: str, namespace: str) -> Object:
        if self.claim is None:
            raise NotFoundError("gone", 404)
        return copy.deepcopy(self.claim)

    def _apply(self, request: Request) -> None:
        assert self.claim is not None
        assert request.body is not None
        given = request.body["metadata"]
        if given["resourceVersion"] != self.claim["metadata"]["resourceVersion"]:
            raise ConflictError("changed", 409)
        part = "status" if request.subresource else "metadata"
        assert set(request.body) <= {"metadata", part}
        self._change({part: request.body.get(part, {})})

    def _change(self, patch: Object) -> None:
        assert self.claim is not None
        version = str(int(self.claim["metadata"]["resourceVersion"]) + 1)
        self.claim = merged(self.claim, patch)
        self.claim["metadata"]["resourceVersion"] = version


def known(api: Api) -> tuple[DeviceObjects, ResourceClaim]:
    objects = DeviceObjects()
    claim = read_device_object(ResourceClaim, json.dumps(api.claim).encode())
    objects.set_claim(claim.key, claim)
    return objects, claim


async def bind(api: Api, *, allocates: bool = True) -> tuple[str, DeviceObjects]:
    objects, claim = known(api)
    allocation = results("gpu0") if allocates else None
    if allocation is not None:
        objects.assume(claim, allocation)
    reservation = AssumedClaims((ReservedClaim(claim, allocation),))
    binder = ClaimBinder(api.write, api.read, objects, timeout=0.0)
    try:
        return await binder.bind(reservation, POD), objects
    finally:
        binder.release(reservation)


ELSEWHERE = {"status": {"allocation": results("gpu9")}}
OTHER_LABEL = {"metadata": {"labels": {"a": "b"}}}
CONFLICT = ConflictError("changed", 409)


@pytest.mark.parametrize(
    ("failures", "is_done", "requests"),
    [
        ([], True, 2),
        ([(CONFLICT, False, OTHER_LABEL)], True, 3),
        ([(CONFLICT, False, ELSEWHERE)], False, 1),
        ([(UNKNOWN, True, {})], True, 2),  # the finalizer is there by then
        ([(UNKNOWN, False, {})], True, 3),
        ([(None, True, {}), (UNKNOWN, True, {})], True, 2),
        ([(None, True, {}), (ApiError("broken", 500), False, {})], True, 3),
        ([(None, True, {}), (UNKNOWN, False, ELSEWHERE)], False, 2),
        ([(CONFLICT, False, {"metadata": {"deletionTimestamp": "2026-01-01"}})], False, 1),
        ([(CONFLICT, False, {"metadata": {"uid": "another"}})], False, 1),
        ([(CONFLICT, False, OTHER_LABEL)] * 9, False, module._ATTEMPTS),
    ],
)
async def test_a_claim_is_written_or_not(failures: Any, is_done: bool, requests: int) -> None:
    api = Api(*failures)
    failure, objects = await bind(api)
    assert (failure == "") is is_done
    assert len(api.sent) == requests
    assert not objects.is_in_flight("u")
    assert api.claim is not None
    if not is_done:
        return
    status = api.claim["status"]
    assert [one["uid"] for one in status["reservedFor"]] == ["uid-p"]
    assert status["allocation"].items() >= results("gpu0").items()
    assert "allocationTimestamp" in status["allocation"]
    assert FINALIZER in api.claim["metadata"]["finalizers"]
    # The watch has said nothing of it yet.
    assert DEVICE in objects.used


async def test_what_the_api_refuses_is_given_back() -> None:
    objects, claim = known(api := Api((ApiError("forbidden", 403), False, {})))
    objects.assume(claim, results("gpu0"))
    reservation = AssumedClaims((ReservedClaim(claim, results("gpu0")),))
    binder = ClaimBinder(api.write, api.read, objects, timeout=0.0)
    with pytest.raises(ApiError):
        await binder.bind(reservation, POD)
    assert DEVICE in objects.used
    binder.release(reservation)
    assert DEVICE not in objects.used


async def test_others_who_use_a_claim_go_on() -> None:
    other = {"resource": "pods", "name": "q", "uid": "uid-q"}
    api = Api(allocation=results("gpu0"), reservedFor=[other])
    assert (await bind(api, allocates=False))[0] == ""
    assert api.claim is not None
    assert [one["uid"] for one in api.claim["status"]["reservedFor"]] == ["uid-q", "uid-p"]
    assert api.claim["status"]["reservedFor"][0] == other
    assert (await bind(api, allocates=False))[0] == ""
    assert len(api.sent) == 1


@pytest.mark.parametrize(
    ("true", "is_done"), [(["ready"], True), ([], False), (["ready", "broken"], False)]
)
async def test_devices_are_prepared_before_a_pod_is_bound(true: list[str], is_done: bool) -> None:
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    said = [{"type": one, "status": "True"} for one in true]
    device = {"driver": "d", "pool": "n1", "device": "gpu0", "conditions": said}
    api = Api(allocation=results("gpu0", **conditions), devices=[device])
    assert ((await bind(api, allocates=False))[0] == "") is is_done


async def test_a_claim_is_deallocated_only_as_it_is_known() -> None:
    api = Api(allocation=results("gpu0"))
    objects, claim = known(api)
    binder = ClaimBinder(api.write, api.read, objects, timeout=0.0)
    await binder.deallocate(claim)
    assert api.claim is not None
    assert "allocation" not in api.claim["status"]
    assert DEVICE not in objects.used
    api = Api((CONFLICT, False, OTHER_LABEL), allocation=results("gpu0"))
    warnings: list[str] = []
    binder = ClaimBinder(api.write, api.read, objects, 0.0, on_warning=warnings.append)
    await binder.deallocate(claim)
    assert api.claim is not None
    assert "allocation" in api.claim["status"]
    assert len(warnings) == 1


GROUP = Consumer("scheduling.k8s.io", "podgroups", "g", "uid-g")


def in_group(gangs: Gangs, *pods: str) -> None:
    """Pods of the group that are about to be bound."""
    for one in pods:
        gangs.set_member(f"shop/{one}", one, GangMember("shop/g.scheduling.k8s.io"), is_bound=False)
        gangs.assume(f"shop/{one}")


async def test_a_claim_of_a_group_is_reserved_for_it_once_and_kept_while_a_pod_needs_it() -> None:
    objects, claim = known(api := Api())
    gangs = Gangs(ClusterState())
    in_group(gangs, "p", "q")
    binder = ClaimBinder(api.write, api.read, objects, timeout=0.0, gangs=gangs)
    given = results("gpu0")
    reservation = AssumedClaims((ReservedClaim(claim, given, group=GROUP),))
    other = Consumer(resource="pods", name="q", uid="uid-q")
    for pod in (POD, other):
        objects.assume(claim, given, pod.uid, GROUP.uid)
        assert await binder.bind(reservation, pod) == ""
    assert api.claim is not None
    assert [one["uid"] for one in api.claim["status"]["reservedFor"]] == ["uid-g"]
    assert len(api.sent) == 2
    await binder.give_back(reservation, POD)
    assert api.claim["status"]["reservedFor"]
    gangs.forget("shop/p")
    await binder.give_back(reservation, other)
    assert not api.claim["status"].get("reservedFor")
