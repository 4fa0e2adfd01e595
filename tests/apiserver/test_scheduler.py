"""koord-scheduler beside a real API server: whatever happens, each pod has one node, with room."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
from koord_kube.client import Client, Limits
from koord_kube.connect import connect
from koord_kube.http2_writer import Http2Writer
from koord_kube.protocol.api import ApiError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import NODES, PODS
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.program import program as module
from koord_scheduler.program.settings import SchedulerSettings

from tests.apiserver.real_cluster import RealCluster
from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.listing import listed
from tests.support.scheduler_program import QUICK, SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "shop"
CORES = 4
MILLICORES = 200
TAINT = {"key": "broken", "effect": "NoSchedule"}


class Cluster:
    """Nodes without kubelets, and pods on them, by the API alone."""

    def __init__(self, server: KubeApiserver, client: Client) -> None:
        self.server = server
        self.client = client

    async def nodes(self, *names: str) -> None:
        async def create(name: str) -> None:
            await self.client.create(
                NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            )
            amounts = {"cpu": str(CORES), "memory": "16Gi", "pods": "110"}
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            await self.client.patch(NODES, name, status, subresource="status")
            # The API server takes new nodes for not ready.
            await self.client.patch(NODES, name, {"spec": {"taints": None}})

        await _all(create, names)

    async def pods(
        self, prefix: str, number: int, millicores: int = MILLICORES, **more: Any
    ) -> None:
        async def create(name: str) -> None:
            requests = {"cpu": f"{millicores}m", "memory": "64Mi"}
            container = {"name": "c", "image": "i", "resources": {"requests": requests}}
            spec = {"containers": [container], **more}
            meta = {"name": name, "namespace": NAMESPACE, "labels": {"app": prefix}}
            given = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            await self.client.create(PODS, given, NAMESPACE)

        await _all(create, [f"{prefix}-{one}" for one in range(number)])

    async def all_pods(self) -> list[Object]:
        found, _ = await listed(self.client, PODS)
        return [one for one in found if one["metadata"]["namespace"] == NAMESPACE]

    async def bound(self) -> dict[str, str]:
        """The node of each pod that has one."""
        pods = await self.all_pods()
        return {
            one["metadata"]["name"]: one["spec"]["nodeName"]
            for one in pods
            if one["spec"].get("nodeName")
        }

    async def wait_bound(self, number: int) -> dict[str, str]:
        async def enough() -> dict[str, str] | None:
            found = await self.bound()
            return found if len(found) >= number else None

        found = await until(enough, f"{number} pods with nodes")
        assert found is not None
        return found

    async def clean(self) -> None:
        """No pods and no nodes: there is no kubelet that would end them."""

        await _all(self.end, [one["metadata"]["name"] for one in await self.all_pods()])
        nodes, _ = await listed(self.client, NODES)
        await _all(partial(self.client.delete, NODES), [one["metadata"]["name"] for one in nodes])

    async def end(self, name: str) -> None:
        """What a kubelet does of a pod that is being deleted."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        await self.client.write(Request("DELETE", PODS, name, NAMESPACE, body=body))

    async def check(self) -> None:
        """No node has more than it can have."""
        on = Counter((await self.bound()).values())
        assert max(on.values()) * MILLICORES <= CORES * 1000


async def _all(do: Any, names: Any) -> None:
    limit = anyio.Semaphore(32)

    async def one(name: str) -> None:
        async with limit:
            await do(name)

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(one, name)


@pytest.fixture
async def cluster(server: KubeApiserver) -> AsyncIterator[Cluster]:
    RealCluster(server).namespace(NAMESPACE)
    RealCluster(server).namespace("kube-system")
    kubeconfig = server.kubeconfig("admin", ADMIN)
    async with await connect(str(kubeconfig), Limits(qps=0)) as client:
        made = Cluster(server, client)
        yield made
        await made.clean()


@pytest.fixture
def schedulers(server: KubeApiserver) -> AsyncIterator[list[SchedulerProgram]]:
    kubeconfig = server.kubeconfig("scheduler", ADMIN)
    network = server.network
    made = [
        SchedulerProgram(
            name,
            server.folder,
            kubeconfig,
            *QUICK,
            host=network.address,
            inside=network.inside([]),
        )
        for name in ("s1", "s2")
    ]
    yield made
    for one in made:
        one.close()
        assert "Traceback" not in one.said


async def test_kill_of_the_leader_lost_nodes_and_taints(
    cluster: Cluster, schedulers: list[SchedulerProgram]
) -> None:
    client = cluster.client
    await cluster.nodes(*(f"n{one}" for one in range(100)))
    for one in schedulers:
        await asyncio.to_thread(one.start)
    await until(lambda: all(one.ready for one in schedulers), "ready")
    await until(lambda: any(one.leads for one in schedulers), "a leader")
    async with anyio.create_task_group() as group:
        group.start_soon(cluster.pods, "first", 800)
        before = await cluster.wait_bound(200)
        leader = next(one for one in schedulers if one.leads)
        leader.kill()
        for number in range(5):
            await client.patch(NODES, f"n{number}", {"spec": {"taints": [TAINT]}})
            await client.delete(NODES, f"n{number + 5}")
    other = next(one for one in schedulers if one is not leader)
    after = await cluster.wait_bound(800)
    assert before.items() <= after.items(), "what was bound stays bound"
    await until(lambda: other.leads, "the other leads")
    await cluster.pods("second", 300)
    everything = await cluster.wait_bound(1100)
    lost = {f"n{one}" for one in range(10)}
    assert not {node for pod, node in everything.items() if pod.startswith("second")} & lost
    await cluster.check()
    leader.start()
    await until(lambda: leader.ready, "the killed one is back")
    for one in schedulers:
        status = await until(lambda one=one: _settled(one, 1100), f"{one.name} knows all pods")
        assert status["cached"]["nodes"] == 95


def _settled(scheduler: SchedulerProgram, pods: int) -> dict[str, Any] | None:
    status = scheduler.page("/v1/status")
    cached, pending = status["cached"], status["pending"]
    is_settled = cached["pods"] == pods and not cached["assumed_pods"] and not any(pending.values())
    return status if is_settled else None


async def test_bindings_that_fail_or_whose_fate_is_unknown(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in fifty fails before it is sent, one in fifty after; there is room for just all pods."""
    rng, failed = Random(1), Counter[str]()

    class Unreliable(Http2Writer):
        async def write(self, request: Request) -> bytes:
            chance = rng.random() if request.subresource == "binding" else 1.0
            if chance < 0.02:
                failed["before"] += 1
                raise ApiError("lost before", 0)
            answer = await super().write(request)
            if chance < 0.04:
                failed["after"] += 1
                raise ApiError("lost after", 500)
            return answer

    monkeypatch.setattr(module, "Http2Writer", Unreliable)
    await cluster.nodes(*(f"n{one}" for one in range(50)))
    made = module.SchedulerProgram(
        SchedulerSettings(port=0, leader_elect=False),
        default_scheduler_config(),
        cluster.client,
        "s1_0",
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.serve)
        await cluster.pods("web", 50 * CORES * 1000 // MILLICORES)
        await cluster.wait_bound(1000)
        await until(lambda: made.status().cached["assumed_pods"] == 0, "all confirmed")
        assert made.status().cached["pods"] == 1000
        group.cancel_scope.cancel()
    await cluster.check()
    assert failed["before"] > 5
    assert failed["after"] > 5


async def test_preemption(cluster: Cluster) -> None:
    """Full nodes: important pods get their nodes once the test has ended the victims."""
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in {"batch": 10, "web": 1000}.items()
    ]
    RealCluster(cluster.server).apply(*classes)
    await cluster.nodes("n1", "n2", "n3")
    made = module.SchedulerProgram(
        SchedulerSettings(port=0, leader_elect=False),
        default_scheduler_config(),
        cluster.client,
        "s1_0",
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.serve)
        await cluster.pods("batch", 6, 2000, priorityClassName="batch")
        await cluster.wait_bound(6)
        await cluster.pods("web", 2, 4000, priorityClassName="web")

        async def victims() -> list[Object] | None:
            pods = await cluster.all_pods()
            found = [one for one in pods if "deletionTimestamp" in one["metadata"]]
            return found if len(found) >= 4 else None

        found = await until(victims, "four victims")
        assert found is not None
        assert {one["metadata"]["labels"]["app"] for one in found} == {"batch"}
        for one in found:
            conditions = {each["type"]: each for each in one["status"]["conditions"]}
            assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        waiting = [one for one in await cluster.all_pods() if "web" in one["metadata"]["name"]]
        nominated = {one["status"]["nominatedNodeName"] for one in waiting}
        assert nominated == {one["spec"]["nodeName"] for one in found}
        await _all(cluster.end, [one["metadata"]["name"] for one in found])
        bound = await cluster.wait_bound(4)
        assert {bound["web-0"], bound["web-1"]} == nominated
        assert not any("deletionTimestamp" in one["metadata"] for one in await cluster.all_pods())
        group.cancel_scope.cancel()
