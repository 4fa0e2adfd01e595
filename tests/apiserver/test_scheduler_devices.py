"""Devices for pods, by a real API server: none is given away twice, and the rest wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from koord_scheduler.plugins.dynamic_resources.assumed_claims import AssumedClaims, ReservedClaim
from koord_scheduler.plugins.dynamic_resources.binder import ClaimBinder
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import (
    FINALIZER,
    Consumer,
    ResourceClaim,
    read_device_object,
)

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import admin_client
from tests.support.listing import listed
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "training"
DRIVER = "gpu.example.com"
GROUP = {"apiVersion": "resource.k8s.io/v1"}
NODE_NAMES = ("g1", "g2")
DEVICES = 4
PODS_THERE = 10
RESOURCE = "example.com/gpu"


@pytest.fixture
async def client(cluster: RealCluster) -> AsyncIterator[Client]:
    cluster.namespace(NAMESPACE)
    async with await admin_client(cluster.server) as made:
        yield made


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster) as made:
        yield made


async def node(client: Client, name: str) -> None:
    """A node, and what its driver says of its devices."""
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    await client.patch(NODES, name, status, subresource="status")
    await client.patch(NODES, name, {"spec": {"taints": None}})
    devices = [
        {"name": f"gpu{at}", "attributes": {"model": {"string": "a100"}}} for at in range(DEVICES)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices}
    metadata = {"name": f"{name}-gpus"}
    await client.create(
        RESOURCE_SLICES, {**GROUP, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
    )


async def pod(client: Client, name: str) -> None:
    """A pod with a claim from a template, as Kubernetes' controller makes it."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": claims}
    metadata = {"name": name, "namespace": NAMESPACE}
    given = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    made = await client.create(PODS, given, NAMESPACE)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"]}
    claim = f"{name}-gpu"
    await client.create(
        RESOURCE_CLAIMS,
        {
            **GROUP,
            "kind": "ResourceClaim",
            "metadata": {"name": claim, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": _wanted()}]}},
        },
        NAMESPACE,
    )
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]}
    await client.patch(PODS, name, {"status": status}, NAMESPACE, subresource="status")


def _wanted() -> dict[str, Any]:
    expression = f'device.attributes["{DRIVER}"].model == "a100"'
    return {"deviceClassName": "gpus", "selectors": [{"cel": {"expression": expression}}]}


async def plain_pod(client: Client, name: str) -> None:
    """A pod that asks for a device as if a device plugin had it."""
    resources = {"requests": {RESOURCE: "1"}, "limits": {RESOURCE: "1"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    metadata = {"name": name, "namespace": NAMESPACE}
    given = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    await client.create(PODS, given, NAMESPACE)


async def pods(client: Client) -> dict[str, Object]:
    found, _ = await listed(client, PODS)
    return {
        one["metadata"]["name"]: one for one in found if one["metadata"]["namespace"] == NAMESPACE
    }


async def bound(client: Client, number: int) -> dict[str, str] | None:
    """The nodes of pods, once so many have one."""
    nodes = {
        name: one["spec"]["nodeName"]
        for name, one in (await pods(client)).items()
        if one["spec"].get("nodeName")
    }
    return nodes if len(nodes) >= number else None


async def bound_to(client: Client, name: str) -> str:
    """The node of a pod, "" while it has none."""
    return str((await pods(client))[name]["spec"].get("nodeName", ""))


async def claims(client: Client) -> dict[str, Object]:
    found, _ = await listed(client, RESOURCE_CLAIMS)
    return {one["metadata"]["name"]: one for one in found}


async def refused(client: Client) -> list[str] | None:
    """What the pods that wait say, once all do."""
    said = [
        condition["message"]
        for one in (await pods(client)).values()
        for condition in one["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]
    return said if len(said) == PODS_THERE - DEVICES * len(NODE_NAMES) else None


async def test_no_device_is_given_to_two_pods_and_the_rest_wait(
    client: Client, scheduler: SchedulerProgram
) -> None:
    in_class = {
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        "extendedResourceName": RESOURCE,
    }
    await client.create(
        DEVICE_CLASSES,
        {**GROUP, "kind": "DeviceClass", "metadata": {"name": "gpus"}, "spec": in_class},
    )
    for name in NODE_NAMES:
        await node(client, name)
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")
    for number in range(PODS_THERE):
        await pod(client, f"p{number}")
    nodes = await until(partial(bound, client, DEVICES * len(NODE_NAMES)), "pods with nodes")
    assert nodes is not None
    given = set()
    for name, where in nodes.items():
        claim = (await claims(client))[f"{name}-gpu"]
        [result] = claim["status"]["allocation"]["devices"]["results"]
        assert result["pool"] == where
        given.add((where, result["device"]))
        uid = (await pods(client))[name]["metadata"]["uid"]
        assert [one["uid"] for one in claim["status"]["reservedFor"]] == [uid]
        assert FINALIZER in claim["metadata"]["finalizers"]
    assert len(given) == DEVICES * len(NODE_NAMES)

    async def are_reported() -> bool:
        """At first their claims were not made yet."""
        said = await refused(client)
        return said is not None and all("2 cannot allocate all claims" in one for one in said)

    await until(are_reported, "why the others wait")

    ended = next(iter(nodes))
    released = {"status": {"allocation": None, "reservedFor": None}}
    await client.patch(RESOURCE_CLAIMS, f"{ended}-gpu", released, NAMESPACE, subresource="status")
    await until(partial(bound, client, DEVICES * len(NODE_NAMES) + 1), "one more pod")

    # An extended resource becomes a device, once there is one that nobody has.
    await plain_pod(client, "plain")
    waiting = [one for one, each in (await pods(client)).items() if "nodeName" not in each["spec"]]
    for name in {*waiting} - {"plain"}:
        await client.delete(PODS, name, NAMESPACE)
    ended = next(iter({*nodes} - {ended}))
    await client.patch(RESOURCE_CLAIMS, f"{ended}-gpu", released, NAMESPACE, subresource="status")
    await until(partial(bound_to, client, "plain"), "a node of the pod without a claim")
    plain = (await pods(client))["plain"]
    said_of_claim = plain["status"]["extendedResourceClaimStatus"]
    assert [one["resourceName"] for one in said_of_claim["requestMappings"]] == [RESOURCE]
    claim = (await claims(client))[said_of_claim["resourceClaimName"]]
    [result] = claim["status"]["allocation"]["devices"]["results"]
    assert result["pool"] == plain["spec"]["nodeName"] == nodes[ended]
    plain_uid = plain["metadata"]["uid"]
    assert claim["metadata"]["ownerReferences"][0]["uid"] == plain_uid
    assert [one["uid"] for one in claim["status"]["reservedFor"]] == [plain_uid]

    # What is taken back if a pod is not bound: the claim that was made for it, and reservations.
    await asyncio.to_thread(scheduler.close)
    objects, warnings = DeviceObjects(), list[str]()
    for each in (await claims(client)).values():
        read = read_device_object(ResourceClaim, msgspec.json.encode(each))
        objects.set_claim(read.key, read)
    binder = ClaimBinder(
        client.write, partial(client.get, RESOURCE_CLAIMS), objects, 0.0, on_warning=warnings.append
    )
    own = next(
        one
        for one in objects.claims.values()
        if one.status.reserved_for and not one.extended_resources_of
    )
    reservation = AssumedClaims((ReservedClaim(own, None),))
    await binder.give_back(reservation, own.status.reserved_for[0])
    await binder.give_back(AssumedClaims(()), Consumer("", "pods", "plain", plain_uid))
    after = await claims(client)
    assert said_of_claim["resourceClaimName"] not in after
    assert "reservedFor" not in after[own.metadata.name]["status"]
    assert "allocation" in after[own.metadata.name]["status"]
    assert warnings == []
