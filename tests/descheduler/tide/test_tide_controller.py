"""TideNodePools are followed, and their nodes change sides, against the API server's double."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from koord_descheduler.drain.controller import DrainController
from koord_descheduler.io.cluster_follower import ClusterFollower
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.tide.controller import TideController
from koord_descheduler.tide.core.node_marks import ANNOTATION_MOVE, LABEL_POOL
from koord_descheduler.tide.core.pod_sides import LABEL_POD_TYPE
from koord_descheduler.tide.core.pool_spec import FINALIZER, PREFIX
from koord_descheduler.tide.tide_metrics import TideMetrics
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.events import EventSource
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.definitions.tide_node_pool import TIDE_NODE_POOL
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.resources import (
    DEFINITIONS,
    DRAIN_NODES,
    EVENTS,
    NODES,
    PODS,
    TIDE_NODE_POOLS,
)
from koord_model.times import from_rfc3339
from koord_scheduler.config.scheduler_config import default_scheduler_config
from prometheus_client import CollectorRegistry

from tests.descheduler.clusters import Document, node, pod
from tests.support.drain_players import DrainPlayers
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

PACE = ReflectorTiming(first=0.004, cap=0.02)
MADE = from_rfc3339("2026-01-01T00:00:00Z")
"""The time at which the double makes all objects."""
SIDE = f"{PREFIX}/node-type"


class TideBench:
    """A pool of three nodes with two pods of a service on "a", and all that takes part."""

    def __init__(self, api: KubeApi, client: Client, group: asyncio.TaskGroup) -> None:
        self.api, self.client, self._group = api, client, group
        self.players = DrainPlayers(client)
        self.cluster = ClusterModel(default_scheduler_config())
        self.follower = ClusterFollower(client, self.cluster, lambda: None)
        writer = BackgroundWriter(TaskSubmitter(client.write).submit, client.backoff)
        self.recorder = EventRecorder(writer, EventSource("koord-descheduler", "d-1"))
        self.began = time.monotonic()
        self.registry = CollectorRegistry()
        self.metrics = TideMetrics(self.registry)
        self.warnings: list[str] = []
        self.tasks = [self.run(self.recorder.run()), self.run(self.players.play())]
        for name in "abc":
            api.put(NODES, node(name, cpu="4"))
        for name in ("p", "q"):
            api.put(PODS, pod(name, "a"), "default")

    def run(self, coroutine: Any) -> asyncio.Task[None]:
        return self._group.create_task(coroutine)

    def lead(self) -> list[asyncio.Task[None]]:
        """A term of a leader: it begins with nothing but what the API has."""
        rest: dict[str, Any] = {"on_warning": self.warnings.append, "poll": 0.02, "pace": PACE}
        rest["wall"] = lambda: MADE + time.monotonic() - self.began
        given = self.client, self.cluster, self.recorder
        self.tide = TideController(*given, self.metrics, **rest)
        term = [self.run(each.run()) for each in (DrainController(*given, **rest), self.tide)]
        self.tasks += term
        return term

    def put_pool(self, **spec: Any) -> None:
        spec = {"nodeConfigs": {"reserve": {"online": 2}}, "coolDown": "0s", **spec}
        self.api.put(TIDE_NODE_POOLS, {"metadata": {"name": "p"}, "spec": spec})

    async def until(self, check: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not check():
                await asyncio.sleep(0.005)

    def node(self, name: str) -> Document:
        found: Document = self.api.get(NODES, name)
        return found

    def offline(self) -> list[str]:
        return [
            name
            for name in "abc"
            if self.node(name)["metadata"]["labels"].get(SIDE) == "offline"
            and not self.node(name)["spec"].get("unschedulable")
        ]

    @property
    def status(self) -> Document:
        found: Document = self.api.get(TIDE_NODE_POOLS, "p").get("status") or {}
        return found

    def of(self, resource: Any) -> list[Document]:
        return [each for key, each in self.api.objects.items() if key.resource == resource]

    def reasons(self) -> set[str]:
        return {each["reason"] for each in self.of(EVENTS)}


@pytest.fixture
async def bench() -> AsyncIterator[TideBench]:
    limits = Limits(qps=0, answer=PATIENCE, watch=20.0, grace=5.0)
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), limits) as client,
        asyncio.TaskGroup() as group,
    ):
        made = TideBench(api, client, group)
        await client.create(DEFINITIONS, TIDE_NODE_POOL)
        made.tasks.append(made.run(made.follower.run()))
        await made.follower.wait_synced()
        yield made
        for task in made.tasks:
            task.cancel()


async def test_a_node_goes_offline_and_comes_back(bench: TideBench) -> None:
    bench.lead()
    bench.put_pool()
    await bench.until(lambda: len(bench.offline()) == 1 and not bench.of(DRAIN_NODES))
    (name,) = bench.offline()
    assert name != "a", "the nodes with the fewest requests go first"
    await bench.until(lambda: bench.status.get("counts", {}).get("offline") == 1)
    assert bench.status["counts"]["online"] == 2
    assert bench.status["reserveNodes"]["onlineNodes"] == sorted({"a", "b", "c"} - {name})
    assert FINALIZER in bench.api.get(TIDE_NODE_POOLS, "p")["metadata"]["finalizers"]
    await bench.until(lambda: {"TideMoveBegins", "TideMoveEnds"} <= bench.reasons())
    jobs = {LABEL_POD_TYPE: "offline"}
    batch = pod("batch", name, labels=jobs, spec={"terminationGracePeriodSeconds": 0})
    bench.api.put(PODS, batch, "default")
    bench.api.put(PODS, pod("w", cpu="3900m", status={"phase": "Pending"}), "default")
    bench.api.put(PODS, pod("v", cpu="3900m", status={"phase": "Pending"}), "default")
    bench.api.put(PODS, pod("x", cpu="3900m", status={"phase": "Pending"}), "default")
    await bench.until(lambda: not bench.offline() and not bench.of(DRAIN_NODES))
    assert not bench.node(name)["spec"].get("taints")
    assert bench.players.evicted == [], "services stay where they are"
    with pytest.raises(LookupError):
        bench.api.get(PODS, "batch", "default")
    labels = {"pool": "p", "to": "online", "result": "done"}
    assert bench.registry.get_sample_value("pykoord_descheduler_tide_moves_total", labels) == 1
    labels = {"pool": "p", "state": "online"}
    await bench.until(
        lambda: bench.registry.get_sample_value("pykoord_descheduler_tide_nodes", labels) == 3
    )
    assert bench.warnings == []


async def test_another_leader_ends_a_move_and_a_deleted_pool_leaves_nothing(
    bench: TideBench,
) -> None:
    bench.players.moves = False
    term = bench.lead()
    bench.put_pool(
        nodeConfigs={"reserve": {"offline": 3}},
        evictStrategy={"type": "watermark", "watermark": {"low": 90, "high": 100}},
        coolDown="1h",
    )
    await bench.until(lambda: len(bench.of(DRAIN_NODES)) == 1 and bench.offline())
    for task in term:
        task.cancel()
    under_way = {each["spec"]["nodeName"] for each in bench.of(DRAIN_NODES)}
    bench.players.moves = True
    bench.lead()
    await bench.until(lambda: under_way <= {*bench.offline()} and not bench.of(DRAIN_NODES))
    await bench.client.delete(TIDE_NODE_POOLS, "p")
    await bench.until(lambda: not bench.of(TIDE_NODE_POOLS))
    for name in "abc":
        left = bench.node(name)
        assert LABEL_POOL not in left["metadata"]["labels"]
        assert ANNOTATION_MOVE not in (left["metadata"].get("annotations") or {})
        assert not left["spec"].get("taints")


async def test_a_pool_that_is_not_valid_says_so(bench: TideBench) -> None:
    bench.lead()
    bench.put_pool(evictStrategy={"type": "watermark", "watermark": {"low": 90}})
    await bench.until(lambda: "expected low to be less" in bench.status.get("message", ""))
    await bench.until(lambda: "InvalidTideNodePool" in bench.reasons())
    assert all(LABEL_POOL not in bench.node(name)["metadata"]["labels"] for name in "abc")
