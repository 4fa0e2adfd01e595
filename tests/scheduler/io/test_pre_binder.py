"""What is written of claims before a pod is bound, and what is left of it if it is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.api import NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS, RESOURCE_CLAIMS
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io.pre_binder import PreBinder
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import DEFAULT_SCHEDULER
from koord_scheduler.plugins.dynamic_resources.availability import ClaimDeletion
from koord_scheduler.plugins.dynamic_resources.binder import ClaimBinder
from koord_scheduler.plugins.dynamic_resources.columns import ClaimColumns
from koord_scheduler.plugins.dynamic_resources.objects import (
    EXTENDED_RESOURCE_CLAIM,
    FINALIZER,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    read_device_object,
)
from koord_scheduler.plugins.dynamic_resources.plugin import DynamicResources
from koord_scheduler.plugins.node_numa_resource.assumed_numa import AssumedNUMA
from koord_scheduler.plugins.node_numa_resource.node_allocation import NUMAAllocation
from koord_scheduler.plugins.reservation.allocation import ReservationAllocation
from koord_scheduler.plugins.volumes.binder import VolumeBinder
from koord_scheduler.plugins.volumes.columns import VolumeColumns
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import PodReader

from tests.support.kube_api import KubeApi

PLUGIN = DynamicResources()
RESOURCE = "example.com/gpu"
OTHER = {"resource": "pods", "name": "q", "uid": "uid-q"}
SHARED = {"driver": "d", "pool": "n1", "device": "gpu9", "request": "r"}


class Cell:
    """A node with three devices, a pod with a claim of its own and a shared one, and its node."""

    def __init__(self, api: KubeApi, client: Client) -> None:
        self.api = api
        self.client = client
        self.leads = True
        self.nodes = nodes = ClusterState()
        nodes.use(VolumeColumns)
        self.warnings: list[str] = []
        self.claims = ClaimBinder(
            self.write,
            lambda name, namespace: client.get(RESOURCE_CLAIMS, name, namespace),
            nodes.use(ClaimColumns).objects,
            timeout=0.0,
            on_warning=self.warnings.append,
        )
        plugins = VolumeBinder(self.write, nodes, 0.0), self.claims
        self.binder = PreBinder({DEFAULT_SCHEDULER: plugins}, self.write)
        nodes.set(read_node(raw({"metadata": {"name": "n1"}})))
        given = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": RESOURCE}}
        nodes.use(ClaimColumns).objects.set_class("gpus", msgspec.convert(given, DeviceClass))
        devices = [{"name": f"gpu{at}"} for at in range(3)]
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": "n1", "pool": pool, "devices": devices}
        piece = {"metadata": {"name": "s"}, "spec": spec}
        nodes.use(ClaimColumns).objects.set_slice("s", msgspec.convert(piece, ResourceSlice))
        exactly = {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 1}
        requests = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        self.put_claim("own", requests)
        allocation = {"devices": {"results": [SHARED]}}
        self.put_claim("shared", requests, allocation=allocation, reservedFor=[OTHER])

    def put_claim(self, name: str, spec: Object, **status: Any) -> None:
        metadata = {"name": name, "namespace": "shop"}
        made = self.api.put(
            RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec, "status": status}, "shop"
        )
        claim = read_device_object(ResourceClaim, raw(made))
        self.nodes.use(ClaimColumns).objects.set_claim(claim.key, claim)

    async def write(self, request: Request) -> bytes:
        if not self.leads:
            raise NotLeadingError("not leading")
        return await self.client.write(request)

    def placement(self) -> Placement:
        names = ("own", "shared")
        container = {"name": "c", "resources": {"requests": {RESOURCE: "2"}}}
        spec = {
            "containers": [container],
            "resourceClaims": [{"name": one, "resourceClaimName": one} for one in names],
        }
        metadata = {"name": "p", "namespace": "shop"}
        pod = self.api.put(PODS, {"metadata": metadata, "spec": spec}, "shop")
        read = PodReader(self.nodes).read(raw(pod))
        assert read.waiting is not None
        row = self.nodes.row("n1")
        assert row is not None
        reservation = PLUGIN.reserve(read.waiting.pod_class, self.nodes, row)
        queued = QueuedPod(read.key, read.uid, 0, read.waiting, 1, 0.0)
        return Placement(queued, "n1", (reservation,))

    def claim(self, name: str) -> Object:
        return self.api.get(RESOURCE_CLAIMS, name, "shop")

    def consumers(self, name: str) -> list[str]:
        return [one["uid"] for one in self.claim(name)["status"].get("reservedFor") or ()]

    def extended(self) -> list[Object]:
        """The claims that were made for extended resources."""
        return [
            one
            for key, one in self.api.objects.items()
            if key.resource == RESOURCE_CLAIMS and "annotations" in one["metadata"]
        ]


def raw(document: Object) -> bytes:
    return json.dumps(document).encode()


@pytest.fixture
async def cell() -> AsyncIterator[Cell]:
    async with KubeApi() as api, Client(Cluster(api.url), Limits(qps=0)) as client:
        yield Cell(api, client)


async def test_extended_resources_get_a_claim_that_the_pod_names(cell: Cell) -> None:
    placement = cell.placement()
    assert await cell.binder.run(placement) == ""
    [claim] = cell.extended()
    metadata, uid = claim["metadata"], placement.pod.uid
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    assert metadata["name"].startswith("p-extended-resources-")
    assert metadata["annotations"] == {EXTENDED_RESOURCE_CLAIM: "true"}
    assert metadata["ownerReferences"] == [owner]
    assert metadata["finalizers"] == [FINALIZER]
    asked = {"name": "container-0-request-0", "exactly": {"deviceClassName": "gpus", "count": 2}}
    assert claim["spec"] == {"devices": {"requests": [asked]}}
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [one["device"] for one in results] == ["gpu1", "gpu2"]
    assert cell.consumers(metadata["name"]) == [uid]
    assert cell.api.get(PODS, "p", "shop")["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": metadata["name"],
        "requestMappings": [
            {"containerName": "c", "resourceName": RESOURCE, "requestName": asked["name"]}
        ],
    }
    assert {one.device for one in cell.nodes.use(ClaimColumns).objects.used.exclusive} == {
        *("gpu0", "gpu1", "gpu2", "gpu9")
    }
    assert {*cell.nodes.use(ClaimColumns).objects.claims} == {
        *("shop/own", "shop/shared", f"shop/{metadata['name']}")
    }


async def test_what_was_written_for_a_pod_that_is_not_bound_is_taken_back(cell: Cell) -> None:
    placement = cell.placement()
    assert await cell.binder.run(placement) == ""
    # Somebody else wrote meanwhile, of which the watch has not said anything yet.
    await cell.client.patch(RESOURCE_CLAIMS, "own", {"metadata": {"labels": {"a": "b"}}}, "shop")
    await cell.binder.take_back(placement)
    assert cell.extended() == []
    assert cell.consumers("own") == []
    assert cell.claim("own")["status"]["allocation"]["devices"]["results"]
    assert cell.consumers("shared") == ["uid-q"]
    assert cell.warnings == []


async def test_what_cannot_be_finished_is_taken_back(cell: Cell) -> None:
    cell.api.fail(verb="patch", plural="pods", status=403)
    assert await cell.binder.run(cell.placement()) != ""
    assert cell.extended() == []
    assert cell.consumers("own") == []
    assert cell.consumers("shared") == ["uid-q"]


async def test_who_does_not_lead_takes_nothing_back(cell: Cell) -> None:
    placement = cell.placement()
    assert await cell.binder.run(placement) == ""
    cell.leads = False
    await cell.binder.take_back(placement)
    assert len(cell.extended()) == 1
    assert placement.pod.uid in cell.consumers("own")


async def test_the_claim_of_an_earlier_attempt_goes_if_its_pod_waits_again(cell: Cell) -> None:
    placement = cell.placement()
    assert await cell.binder.run(placement) == ""
    [left_over] = cell.extended()
    pod = placement.pod.waiting.pod_class

    def remedy(*waiting: str) -> object:
        return PLUGIN.post_filter(pod, cell.nodes, lambda: np.arange(0), waiting)

    assert remedy("uid-other") is None
    found = remedy("uid-other", placement.pod.uid)
    assert isinstance(found, ClaimDeletion)
    assert found.claim.metadata.name == left_over["metadata"]["name"]
    await cell.binder.help(found)
    assert cell.extended() == []


async def test_annotations_of_all_plugins_are_written_at_once(cell: Cell) -> None:
    placement = cell.placement()
    cpus = AssumedNUMA(NUMAAllocation(), (("a", "1"), ("b", None)))
    reserved = ReservationAllocation("r", (("c", "2"),))
    before = cell.api.count("patch", "pods")
    assert await cell.binder.run(placement._replace(reserved=(cpus, reserved))) == ""
    assert cell.api.get(PODS, "p", "shop")["metadata"]["annotations"] == {"a": "1", "c": "2"}
    assert cell.api.count("patch", "pods") == before + 1


async def test_annotations_are_taken_back_with_a_placement(cell: Cell) -> None:
    placement = cell.placement()
    reserved = ReservationAllocation("r", (("reserved", "2"), ("gone", None)))
    placement = placement._replace(reserved=(reserved,))
    await cell.binder.run(placement)
    await cell.binder.take_back(placement)
    assert not cell.api.get(PODS, "p", "shop")["metadata"].get("annotations")
