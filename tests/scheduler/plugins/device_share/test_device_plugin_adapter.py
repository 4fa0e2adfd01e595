"""Device plugins find the pod that is bound, and one pod after the other where they need that."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.api import NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import NODES, PODS
from koord_model.device_allocated import PodDevice
from koord_model.keys import GPU_CORE, GPU_MEMORY, LABEL_GPU_ISOLATION_PROVIDER, LABEL_HAMI_NODE
from koord_model.times import rfc3339
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io.pre_binder import PreBinder
from koord_scheduler.plugins.device_share.assumed_devices import (
    AssumedDevices,
    device_reservation,
)
from koord_scheduler.plugins.device_share.binder import DevicePluginAdapter
from koord_scheduler.plugins.device_share.device_object import GPUModel
from koord_scheduler.plugins.device_share.node_locker import NodeLocker
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import PodReader

from tests.support.kube_api import KubeApi

NOW = 1_800_000_000.0
LOCK = "hami.io/mutex.lock"
METAX = "metax-tech.com/gpu-devices-allocated"
CARD = PodDevice("gpu", 1, ((GPU_CORE, 50), (GPU_MEMORY, 8 << 30)))


class Cell:
    """A node with MetaX cards, and pods that get one of them."""

    def __init__(self, api: KubeApi, client: Client) -> None:
        self.api, self.client = api, client
        self.now = NOW
        self.leads = True
        self.warnings: list[str] = []
        self.nodes = ClusterState()
        wall, warn = lambda: self.now, self.warnings.append
        self.locker = NodeLocker(
            self.write, self.read(NODES), self.read(PODS), on_warning=warn, wall=wall
        )
        self.binder = PreBinder(
            {"default-scheduler": [DevicePluginAdapter(self.locker, on_warning=warn, wall=wall)]},
            self.write,
        )
        api.put(NODES, {"metadata": {"name": "n1"}})

    def read(self, resource: Any) -> Any:
        return lambda name, namespace: self.client.get(resource, name, namespace)

    async def write(self, request: Request) -> bytes:
        if not self.leads:
            raise NotLeadingError("not leading")
        return await self.client.write(request)

    def placement(
        self, name: str = "a", vendor: str = "metax", cards: tuple[PodDevice, ...] = (CARD,)
    ) -> Placement:
        pod = self.put_pod(name)
        read = PodReader(self.nodes).read(raw(pod))
        assert read.waiting is not None
        queued = QueuedPod(read.key, read.uid, 0, read.waiting, 1, 0.0)
        ids = {(one.type, one.minor): f"C-{one.minor}" for one in cards}
        reservation = device_reservation(cards, ids, GPUModel(vendor), "HAMi-core")
        return Placement(queued, "n1", (reservation,))

    def put_pod(self, name: str, node: str = "", phase: str = "Pending") -> Object:
        labels = {LABEL_GPU_ISOLATION_PROVIDER: "HAMi-core"}
        spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
        pod = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        return self.api.put(PODS, {**pod, "status": {"phase": phase}}, "shop")

    def lock(self, pod: str, since: float = NOW) -> None:
        text = f"{rfc3339(since)},{pod.replace('/', ',')}" if "/" in pod else pod
        self.api.put(NODES, {"metadata": {"name": "n1", "annotations": {LOCK: text}}})

    def locked_for(self) -> str:
        found = self.api.get(NODES, "n1")["metadata"].get("annotations") or {}
        return "/".join(found.get(LOCK, "").split(",")[1:])

    def annotations(self, name: str) -> Object:
        found: Object = self.api.get(PODS, name, "shop")["metadata"].get("annotations") or {}
        return found


def raw(document: Object) -> bytes:
    return json.dumps(document).encode()


@pytest.fixture
async def cell() -> AsyncIterator[Cell]:
    async with KubeApi() as api, Client(Cluster(api.url), Limits(qps=0)) as client:
        yield Cell(api, client)


async def test_a_pod_says_all_that_its_device_plugin_reads(cell: Cell) -> None:
    before = cell.api.count("patch", "pods")
    assert await cell.binder.run(cell.placement()) == ""
    assert cell.api.count("patch", "pods") == before + 1
    found = cell.annotations("a")
    assert found[METAX] == '[[{"uuid":"C-1","compute":50,"vRam":8192}]]'
    assert found["scheduling.koordinator.sh/gpu-minors"] == "1"
    assert found["scheduling.koordinator.sh/bind-timestamp"] == "1800000000000000000"
    assert "scheduling.koordinator.sh/device-allocated" in found
    labels = cell.api.get(PODS, "a", "shop")["metadata"]["labels"]
    assert labels == {LABEL_GPU_ISOLATION_PROVIDER: "HAMi-core", LABEL_HAMI_NODE: "n1"}
    assert cell.locked_for() == "shop/a"


async def test_the_lock_of_a_pod_that_is_not_bound_goes(cell: Cell) -> None:
    placement = cell.placement()
    assert await cell.binder.run(placement) == ""
    refused = await cell.binder.run(cell.placement("b"))
    assert "n1" in refused
    assert "shop/a" in refused
    assert cell.annotations("b") == {}
    assert cell.locked_for() == "shop/a", "who was refused takes nothing of another back"
    await cell.binder.take_back(placement)
    assert cell.locked_for() == ""


async def test_a_pod_that_cannot_be_annotated_leaves_no_lock(cell: Cell) -> None:
    cell.api.fail(verb="patch", plural="pods", status=403)
    assert await cell.binder.run(cell.placement()) != ""
    assert cell.locked_for() == ""


async def test_without_a_lock_the_node_is_not_touched(cell: Cell) -> None:
    assert await cell.binder.run(cell.placement(vendor="huawei")) == ""
    assert cell.annotations("a")["huawei.com/npu-core"] == "1"
    await cell.binder.take_back(cell.placement("b", vendor="huawei"))
    assert cell.api.count("get", "nodes") == 0


@pytest.mark.parametrize(
    "cards",
    [
        (CARD, CARD._replace(minor=2)),
        (CARD._replace(resources=((GPU_MEMORY, 8 << 30),)),),
        (CARD._replace(resources=((GPU_CORE, 50), (GPU_MEMORY, 1 << 20))),),
    ],
)
async def test_what_the_device_plugin_cannot_give_is_reported(
    cell: Cell, cards: tuple[PodDevice, ...]
) -> None:
    failure = await cell.binder.run(cell.placement(vendor="cambricon", cards=cards))
    assert "shop/a" in failure
    assert cell.warnings == [failure]
    assert cell.annotations("a") == {}


@pytest.mark.parametrize(
    ("pod", "node", "phase", "age", "expected"),
    [
        ("shop/a", "", "Pending", 0, True),  # its own, of a scheduler that died
        ("shop/other", "", "Pending", 0, False),
        ("shop/other", "", "Pending", 300, False),
        ("shop/other", "", "Pending", 301, True),
        ("shop/other", "n1", "Pending", 0, False),
        ("shop/other", "n2", "Pending", 0, True),
        ("shop/other", "n1", "Succeeded", 0, True),
        ("shop/gone", "", "Pending", 0, True),
        (rfc3339(NOW - 301), "", "Pending", 0, True),  # of HAMi before it had names
        (rfc3339(NOW), "", "Pending", 0, False),
    ],
)
async def test_whose_lock_may_be_taken(
    cell: Cell, pod: str, node: str, phase: str, age: int, expected: bool
) -> None:
    cell.put_pod("other", node, phase)
    cell.lock(pod, NOW - age)
    failure = await cell.locker.lock("n1", LOCK, "shop/a")
    assert (failure == "") is expected
    assert (cell.locked_for() == "shop/a") is (expected or pod == "shop/a")


async def test_a_lock_that_cannot_be_read_is_named(cell: Cell) -> None:
    cell.lock("soon")
    failure = await cell.locker.lock("n1", LOCK, "shop/a")
    assert all(one in failure for one in ("n1", LOCK, "soon"))


async def test_of_two_schedulers_one_gets_the_lock(cell: Cell) -> None:
    cell.put_pod("a")
    cell.put_pod("b")
    both = anyio.Event()
    readers: list[str] = []

    async def read_node(name: str, namespace: str) -> Object:
        found = await cell.client.get(NODES, name, namespace)
        readers.append(name)
        if len(readers) >= 2:
            both.set()
        await both.wait()
        return found

    failures: dict[str, str] = {}

    async def lock(pod: str) -> None:
        locker = NodeLocker(cell.write, read_node, cell.read(PODS), wall=lambda: NOW)
        failures[pod] = await locker.lock("n1", LOCK, pod)

    async with anyio.create_task_group() as group:
        group.start_soon(lock, "shop/a")
        group.start_soon(lock, "shop/b")
    [winner] = [pod for pod, failure in failures.items() if not failure]
    assert cell.locked_for() == winner
    assert len(readers) == 3, "who came second looked again"


async def test_a_write_without_an_answer_is_looked_up(cell: Cell) -> None:
    cell.api.fail(verb="patch", plural="nodes", status=500)
    assert await cell.locker.lock("n1", LOCK, "shop/a") == ""
    assert cell.locked_for() == "shop/a"


async def test_who_does_not_lead_leaves_the_lock(cell: Cell) -> None:
    placement = cell.placement()
    assert await cell.binder.run(placement) == ""
    cell.leads = False
    await cell.binder.take_back(placement)
    assert cell.locked_for() == "shop/a"
    cell.leads = True
    again = cell.placement()
    assert isinstance(again.reserved[0], AssumedDevices)
    assert await cell.binder.run(again) == ""
