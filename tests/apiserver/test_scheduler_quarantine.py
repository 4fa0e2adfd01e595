"""A node with a dead GPU, by a real API server: it swallows pods until the scheduler sees it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import EVENTS, PODS

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import admin_client
from tests.support.listing import listed
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "swallowed"
GPU = "nvidia.com/gpu"
BAD, GOOD = "dead-gpu", ("g1", "g2", "g3")
WANTED = 6
REJECTIONS = 3
SECONDS = 5.0
MESSAGE = (
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
    f"unhealthy devices {GPU}, which is unexpected"
)


def config(**args: int) -> str:
    """The plugin with these arguments; off without any."""
    plugins = {"multiPoint": {"enabled": [{"name": "NodeQuarantine"}]}} if args else {}
    settings = [{"name": "NodeQuarantine", "args": args}] if args else []
    profile = {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": settings}
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )


class KubeletDouble:
    """Kubelets, and a controller that wants ``wanted`` pods and makes failed ones anew at once.

    A test double of both. The kubelet of ``BAD`` admits nothing while it ``is_dead``, in the words
    and with the status that Kubernetes' kubelet writes then (``rejectPod``).
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.wanted = WANTED
        self.made = 0
        self.is_dead = True
        self.swallowed: list[str] = []
        self.runs: dict[str, str] = {}

    async def play(self) -> None:
        while True:
            found, _ = await listed(self.client, PODS, NAMESPACE)
            there = [one for one in found if one["status"].get("phase") != "Failed"]
            for one in there:
                await self._start(one)
            for _ in range(self.wanted - len(there)):
                await self._create()
            await asyncio.sleep(0.05)

    async def _start(self, pod: Object) -> None:
        node, name = pod["spec"].get("nodeName", ""), pod["metadata"]["name"]
        if not node or pod["status"].get("phase") == "Running":
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        status: dict[str, Any] = {"phase": "Running", "startTime": now}
        if node == BAD and self.is_dead:
            reason = {"reason": "UnexpectedAdmissionError", "message": MESSAGE}
            status = {"phase": "Failed", "startTime": now, "conditions": None, **reason}
            self.swallowed.append(name)
        else:
            self.runs[name] = node
        await self.client.patch(PODS, name, {"status": status}, NAMESPACE, subresource="status")

    async def _create(self) -> None:
        self.made += 1
        resources = {"requests": {"cpu": "100m", GPU: "1"}, "limits": {GPU: "1"}}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train", "uid": "train"}
        metadata = {
            "name": f"train-{self.made}",
            "namespace": NAMESPACE,
            "ownerReferences": [{**owner, "controller": True}],
        }
        spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await self.client.create(PODS, pod, NAMESPACE)


@asynccontextmanager
async def played_cluster(cluster: RealCluster) -> AsyncIterator[KubeletDouble]:
    """Nodes, and pods on them, by a scheduler that the test starts."""
    cluster.namespace(NAMESPACE)
    for name in (BAD, *GOOD):
        # The dead node is always the emptiest one.
        cpus = "64" if name == BAD else "8"
        cluster.ready_node(name, {"cpu": cpus, "memory": "64Gi", "pods": "500", GPU: "400"})
    async with await admin_client(cluster.server) as client, anyio.create_task_group() as group:
        made = KubeletDouble(client)
        group.start_soon(made.play)
        yield made
        group.cancel_scope.cancel()
    cluster.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0")


async def led(scheduler: SchedulerProgram) -> None:
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")


async def test_without_the_plugin_a_dead_node_swallows_all(cluster: RealCluster) -> None:
    async with played_cluster(cluster) as played:
        with deployed_scheduler(cluster, config()) as scheduler:
            await led(scheduler)
            await asyncio.sleep(SECONDS)
    print(f"without: {len(played.swallowed)} pods swallowed in {SECONDS:.0f} s")
    assert len(played.swallowed) > 3 * WANTED
    assert not played.runs


async def test_with_the_plugin_pods_run_elsewhere_through_a_kill_and_it_is_tried_again(
    cluster: RealCluster,
) -> None:
    settings = config(rejections=REJECTIONS, firstPauseSeconds=20, longestPauseSeconds=600)
    async with played_cluster(cluster) as played:
        with deployed_scheduler(cluster, settings) as scheduler:
            await led(scheduler)
            await until(lambda: len(played.runs) >= WANTED, "all pods run")
            before = len(played.swallowed)
            assert set(played.runs.values()) <= set(GOOD)
            # Those that were on their way when the third one was rejected are lost, too.
            assert REJECTIONS <= before <= REJECTIONS + WANTED
            await until(lambda: _events(cluster, "NodeQuarantined"), "an Event")
            scheduler.kill()
            played.wanted += WANTED
            await asyncio.sleep(1.0)
            await led(scheduler)
            await until(lambda: len(played.runs) >= 2 * WANTED, "more pods run")
            print(f"with: {before} swallowed, {len(played.swallowed)} after kill -9")
            assert len(played.swallowed) == before
            played.is_dead = False
            await until(partial(_is_tried, played), "a trial")
            await until(lambda: _events(cluster, "NodeReleased"), "an Event")


async def _is_tried(played: KubeletDouble) -> bool:
    played.wanted += 1
    await asyncio.sleep(1.0)
    return BAD in played.runs.values()


def _events(cluster: RealCluster, reason: str) -> list[Object]:
    found = cluster.get(EVENTS.plural, "-n", "default")["items"]
    of_bad = [one for one in found if one["involvedObject"]["name"] == BAD]
    return [one for one in of_bad if one["reason"] == reason]
