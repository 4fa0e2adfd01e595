from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.protocol.resources import PODS, RECOMMENDATIONS
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.recommendation.controller import RecommendationController
from koord_manager.recommendation.core.recommender import RecommendationPolicy, Recommender
from koord_model.keys import ANNOTATION_RECOMMENDATION_CHECKPOINT
from koord_model.times import rfc3339

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

FAST = ReflectorTiming(first=0.01, cap=0.02)
SPEC = {"target": {"type": "workload", "workload": {"kind": "StatefulSet", "name": "web"}}}


class Nodes:
    """The nodes, and what they have reported; the clock moves by a minute with each report."""

    def __init__(self) -> None:
        self.statuses: dict[str, bytes] = {}
        self.objects: dict[str, ClusterNode] = {}
        self.synced = True
        self.now = 1_795_168_800.0

    async def wait_synced(self) -> None:
        pass

    def report(self, cpu: str, memory: str, node: str = "n1", **containers: Any) -> None:
        pod: dict[str, Any] = {
            "namespace": "shop",
            "name": "web-0",
            "podUsage": {"resources": {"cpu": cpu, "memory": memory}},
        }
        if containers:
            pod["extensions"] = {"pykoord": {"containers": containers}}
        status = {"updateTime": rfc3339(self.now), "podsMetric": [pod]}
        self.statuses[node] = json.dumps(status).encode()
        self.now += 60.0


class Rig:
    def __init__(self, api: KubeApi, client: Client, nodes: Nodes) -> None:
        self.api, self.nodes, self.reported = api, nodes, list[str]()
        self.recommender = Recommender(RecommendationPolicy(least_history=600.0))
        self.controller = RecommendationController(
            client,
            nodes,
            self.recommender,
            nodes.statuses.get,
            on_warning=self.reported.append,
            interval=0.01,
            clock=lambda: nodes.now,
            pace=FAST,
        )
        self.looks, self._look = 0, self.controller.look
        self.controller.look = self._counted  # type: ignore[method-assign]

    def pod(self, *containers: str, kills: bool = False, phase: str = "Running") -> None:
        status: dict[str, Any] = {"phase": phase}
        if kills:
            ended = {"reason": "OOMKilled", "finishedAt": "2026-11-20T10:00:30Z"}
            status["containerStatuses"] = [
                {"name": containers[0], "lastState": {"terminated": ended}}
            ]
        limits = {"limits": {"memory": "1Gi"}}
        self.api.put(
            PODS,
            {
                "metadata": {
                    "name": "web-0",
                    "ownerReferences": [{"kind": "StatefulSet", "name": "web", "controller": True}],
                },
                "spec": {
                    "nodeName": "n1",
                    "containers": [{"name": name, "resources": limits} for name in containers],
                },
                "status": status,
            },
            "shop",
        )

    def ask(self, spec: Any = None) -> None:
        self.api.put(RECOMMENDATIONS, {"metadata": {"name": "web"}, "spec": spec or SPEC}, "shop")

    def condition(self) -> dict[str, Any]:
        status = self.api.get(RECOMMENDATIONS, "web", "shop").get("status") or {}
        (found,) = status.get("conditions") or [{}]
        return dict(found)

    async def until(self, check: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not check():
                await asyncio.sleep(0.005)

    def containers(self) -> list[dict[str, Any]]:
        status = self.api.get(RECOMMENDATIONS, "web", "shop")["status"]
        return list(status["podStatus"]["containerStatuses"])

    async def learn(self, minutes: int, **more: Any) -> None:
        await self.until(lambda: "shop/web" in self.controller._matched)
        for _ in range(minutes):
            await self.looked()
            self.nodes.report("500m", "100Mi", **more)
        await self.looked()

    async def looked(self) -> None:
        """Until the controller has surely seen what was reported last."""
        looks = self.looks
        await self.until(lambda: self.looks > looks + 1)  # one may have been under way

    async def _counted(self) -> None:
        await self._look()
        self.looks += 1


@asynccontextmanager
async def running(api: KubeApi, nodes: Nodes) -> AsyncIterator[Rig]:
    async with Client(Cluster(api.url)) as client:
        rig = Rig(api, client, nodes)
        task = asyncio.get_running_loop().create_task(rig.controller.run())
        yield rig
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as made:
        made.installed.add(RECOMMENDATIONS)
        yield made


async def test_from_reports_to_a_recommendation(api: KubeApi) -> None:
    async with running(api, Nodes()) as rig:
        rig.pod("main")
        rig.ask()
        await rig.until(lambda: rig.condition().get("reason") == "NoUsage")
        await rig.learn(12)
        await rig.until(lambda: rig.condition().get("reason") == "Recommended")
        (found,) = rig.containers()
        assert found["containerName"] == "main"
        assert 575 <= int(found["resources"]["cpu"].removesuffix("m")) <= 640
        assert rig.reported == []


async def test_containers_one_by_one_where_nodes_tell_of_them(api: KubeApi) -> None:
    async with running(api, Nodes()) as rig:
        rig.pod("main", "side")
        rig.ask()
        # A pod with two containers says nothing about either.
        await rig.learn(3)
        await rig.until(lambda: rig.condition().get("reason") == "NoUsage")
        usage = {
            name: {"cpu": cpu, "memory": "64Mi"} for name, cpu in (("main", "2"), ("side", "100m"))
        }
        await rig.learn(12, **usage)
        await rig.until(lambda: rig.condition().get("reason") == "Recommended")
        found = rig.containers()
        assert [one["containerName"] for one in found] == ["main", "side"]
        assert int(found[0]["resources"]["cpu"][:-1]) > 10 * int(found[1]["resources"]["cpu"][:-1])


async def test_a_kill_asks_for_no_more_than_the_largest_node_has(api: KubeApi) -> None:
    nodes = Nodes()
    for name, memory in (("n1", "1100Mi"), ("n2", "900Mi")):
        amount = {"memory": memory}
        nodes.objects[name] = ClusterNode(name, capacity={"memory": "4Gi"}, allocatable=amount)
    async with running(api, nodes) as rig:
        rig.pod("main", kills=True)
        rig.ask()
        await rig.learn(12)
        await rig.until(lambda: rig.condition().get("reason") == "Recommended")
        assert rig.containers()[0]["resources"]["memory"] == "1100Mi"
        assert rig.condition()["message"].endswith("largest node 1.074 GiB)")
        larger = {"memory": "4Gi"}
        nodes.objects["n3"] = ClusterNode("n3", capacity=larger, allocatable=larger)
        await rig.until(lambda: rig.containers()[0]["resources"]["memory"] == "1229Mi")


async def test_kills_of_several_pods_count_in_their_order(api: KubeApi) -> None:
    async with running(api, Nodes()) as rig:
        rig.pod("main", kills=True)
        small = copy.deepcopy(api.get(PODS, "web-0", "shop"))
        small["metadata"] = {**small["metadata"], "name": "web-00"}
        small["spec"]["containers"][0]["resources"]["limits"]["memory"] = "64Mi"
        ended = small["status"]["containerStatuses"][0]["lastState"]["terminated"]
        ended["finishedAt"] = "2026-11-20T10:00:40Z"
        late = copy.deepcopy(small)
        late["metadata"]["name"] = "web-000"
        late["spec"]["containers"][0]["resources"]["limits"]["memory"] = "64Gi"
        late["status"]["containerStatuses"][0]["lastState"]["terminated"] = {
            **ended,
            "finishedAt": "2036-11-20T10:00:40Z",
        }
        for one in (late, small):
            del one["metadata"]["uid"], one["metadata"]["resourceVersion"]
            api.put(PODS, one, "shop")
        rig.ask()
        await rig.learn(12)
        await rig.until(lambda: rig.condition().get("reason") == "Recommended")
        assert rig.containers()[0]["resources"]["memory"] == "1229Mi", "1.2 × 1 GiB"


async def test_the_next_leader_goes_on_where_the_last_one_was(api: KubeApi) -> None:
    nodes = Nodes()
    async with running(api, nodes) as rig:
        rig.pod("main")
        rig.ask()
        await rig.learn(15)
        meta = api.get(RECOMMENDATIONS, "web", "shop")["metadata"]
        assert ANNOTATION_RECOMMENDATION_CHECKPOINT in meta["annotations"]
        first = api.get(RECOMMENDATIONS, "web", "shop")["status"]["podStatus"]
    async with running(api, nodes) as rig:
        await rig.until(lambda: rig.recommender.history("shop/web", nodes.now) > 600)
        await rig.learn(1)
        assert rig.condition()["reason"] == "Recommended"
        assert api.get(RECOMMENDATIONS, "web", "shop")["status"]["podStatus"] == first


async def test_a_target_that_cannot_be_read_is_said_so(api: KubeApi) -> None:
    async with running(api, Nodes()) as rig:
        rig.ask({"target": {"type": "pods"}})
        await rig.until(lambda: rig.condition().get("reason") == "TargetUnusable")
        assert 'type is "pods"; expected' in rig.condition()["message"]
        rig.pod("main")
        rig.ask()
        await rig.until(lambda: rig.condition().get("reason") == "NoUsage")


async def test_what_is_deleted_is_forgotten(api: KubeApi) -> None:
    async with running(api, Nodes()) as rig:
        rig.pod("main")
        rig.ask()
        await rig.learn(2)
        await rig.until(lambda: "shop/web" in rig.recommender.workloads())
        api.delete(RECOMMENDATIONS, "web", "shop")
        await rig.until(lambda: not rig.recommender.workloads())
        await rig.until(lambda: api.open_watches() == 1)


async def test_only_what_runs_is_learnt_and_another_target_is_learnt_anew(api: KubeApi) -> None:
    async with running(api, Nodes()) as rig:
        rig.pod("main", phase="Pending")
        rig.ask()
        await rig.learn(3)
        await rig.until(lambda: rig.condition().get("reason") == "NoUsage")
        assert rig.recommender.history("shop/web", rig.nodes.now) == 0
        rig.pod("main")
        await rig.learn(12)
        await rig.until(lambda: rig.condition().get("reason") == "Recommended")
        rig.ask({"target": {"type": "podSelector", "podSelector": {"matchLabels": {"app": "db"}}}})
        await rig.until(lambda: rig.condition().get("reason") == "NoPods")
        assert "shop/web" not in rig.recommender.workloads()
