"""DrainNodes are followed, and their steps carried out, against the API server's double."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from koord_descheduler.drain.act_writer import ActWriter
from koord_descheduler.drain.controller import DrainController
from koord_descheduler.drain.drain_acts import DrainAct
from koord_descheduler.drain.drain_objects import ANNOTATION_CLAIM
from koord_descheduler.io.cluster_follower import ClusterFollower
from koord_descheduler.planner.cluster import ClusterModel
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.events import EventSource
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import ConflictError
from koord_kube.protocol.resources import (
    DRAIN_NODE_GROUPS,
    DRAIN_NODES,
    EVENTS,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
)
from koord_scheduler.config.scheduler_config import default_scheduler_config

from tests.descheduler.clusters import Document, node, pod
from tests.support.drain_players import DrainPlayers
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

PACE = ReflectorTiming(first=0.004, cap=0.02)


class DrainBench:
    """A cluster of three nodes with two pods on "a", and all that takes part in a drain."""

    def __init__(self, api: KubeApi, client: Client) -> None:
        self.api = api
        self.warnings: list[str] = []
        self.players = DrainPlayers(client)
        self.cluster = ClusterModel(default_scheduler_config())
        self.follower = ClusterFollower(client, self.cluster, lambda: None)
        writer = BackgroundWriter(TaskSubmitter(client.write).submit, client.backoff)
        self.recorder = EventRecorder(writer, EventSource("koord-descheduler", "d-1"))
        self.client = client
        for name in "abc":
            api.put(NODES, node(name, cpu="4"))
        for name in ("p", "q"):
            api.put(PODS, pod(name, "a"), "default")

    def controller(self, *, dry_run: bool = False) -> DrainController:
        return DrainController(
            self.client,
            self.cluster,
            self.recorder,
            on_warning=self.warnings.append,
            dry_run=dry_run,
            poll=0.02,
            pace=PACE,
        )

    def ask(self, name: str = "d", **spec: Any) -> None:
        asked = {"nodeName": "a", **spec}
        self.api.put(DRAIN_NODES, {"metadata": {"name": name}, "spec": asked})

    async def change(self, **spec: Any) -> None:
        await self.client.patch(DRAIN_NODES, "d", {"spec": spec})

    def status(self, name: str = "d") -> Document:
        found: Document = self.api.get(DRAIN_NODES, name).get("status") or {}
        return found

    @property
    def group(self) -> Document:
        found: Document = self.api.get(DRAIN_NODE_GROUPS, "g").get("status") or {}
        return found

    async def until(self, check: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not check():
                await asyncio.sleep(0.005)

    async def phase(self, phase: str, name: str = "d") -> None:
        await self.until(lambda: self.status(name).get("phase") == phase)

    def count(self, resource: Any) -> int:
        return sum(key.resource == resource for key in self.api.objects)

    @property
    def node(self) -> Document:
        found: Document = self.api.get(NODES, "a")
        return found


@pytest.fixture
def dry_run() -> bool:
    return False


@pytest.fixture
async def bench(dry_run: bool) -> AsyncIterator[DrainBench]:
    limits = Limits(qps=0, answer=PATIENCE, watch=20.0, grace=5.0)
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), limits) as client,
        asyncio.TaskGroup() as group,
    ):
        made = DrainBench(api, client)
        runs = (made.follower.run(), made.recorder.run(), made.players.play())
        tasks = [group.create_task(each) for each in runs]
        await made.follower.wait_synced()
        tasks.append(group.create_task(made.controller(dry_run=dry_run).run()))
        yield made
        for task in tasks:
            task.cancel()


async def test_a_node_is_drained_and_people_hear_of_it(bench: DrainBench) -> None:
    bench.ask(reason="new kernel")
    await bench.phase("Waiting")
    assert bench.node["spec"]["unschedulable"]
    assert bench.count(RESERVATIONS) == 2
    assert bench.count(POD_MIGRATION_JOBS) == 0
    await bench.change(confirmState="Confirmed")
    await bench.phase("Drained")
    assert sorted(bench.players.evicted) == ["p", "q"]
    await bench.until(lambda: _condition(bench.node, "Drained") == "True")
    assert _condition(bench.node, "DrainInProgress") == "False"
    assert _condition(bench.node, "Ready") == "True"
    (job, _) = [each for key, each in bench.api.objects.items() if key[0] == POD_MIGRATION_JOBS]
    assert job["metadata"]["annotations"] == {
        "koordinator.sh/evict-reason": "node a is drained: new kernel",
        "koordinator.sh/evict-trigger": "DrainNode/d",
    }
    await bench.until(lambda: "Drained" in _reasons(bench))
    assert "Running" in _reasons(bench)


async def test_an_abort_leaves_nothing(bench: DrainBench) -> None:
    bench.players.moves = False
    bench.ask(confirmState="Confirmed")
    await bench.until(lambda: bench.count(POD_MIGRATION_JOBS) == 2)
    await bench.change(confirmState="Aborted")
    await bench.phase("Aborted")
    await bench.until(lambda: not bench.node["spec"].get("unschedulable"))
    assert (bench.count(RESERVATIONS), bench.count(POD_MIGRATION_JOBS)) == (0, 0)
    assert ANNOTATION_CLAIM not in bench.node["metadata"].get("annotations", {})
    assert not bench.players.evicted


async def test_a_node_is_claimed_only_by_a_drain_that_cannot_vanish(
    bench: DrainBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform, acts = ActWriter.perform, list[str]()

    async def fail_first(self: ActWriter, act: DrainAct, *more: Any) -> bool:
        acts.append(type(act).__name__)
        if len(acts) == 1:
            raise ConflictError("patch drainnodes d", 409)
        return await perform(self, act, *more)

    monkeypatch.setattr(ActWriter, "perform", fail_first)
    bench.ask()
    await bench.phase("Waiting")
    assert acts[:3] == ["KeepFinalizer", "KeepFinalizer", "ClaimNode"]


async def test_two_drains_of_a_node_follow_each_other(bench: DrainBench) -> None:
    bench.ask()
    await bench.phase("Waiting")
    bench.ask("e")
    await bench.phase("Pending", "e")
    assert bench.status("e")["message"] == "DrainNode d drains node a"
    await bench.change(confirmState="Rejected")
    await bench.phase("Waiting", "e")
    assert not bench.status("e")["cordonedBefore"]


async def test_without_reservations_places_are_simulated(bench: DrainBench) -> None:
    bench.players.moves = False
    bench.api.installed -= {RESERVATIONS}
    bench.ask(confirmState="Confirmed")
    await bench.until(lambda: bench.count(POD_MIGRATION_JOBS) == 2)
    jobs = [each for key, each in bench.api.objects.items() if key[0] == POD_MIGRATION_JOBS]
    assert {job["spec"]["mode"] for job in jobs} == {"EvictDirectly"}


@pytest.mark.parametrize("dry_run", [True])
async def test_a_descheduler_that_runs_dry_plans_only(bench: DrainBench) -> None:
    bench.ask(confirmState="Confirmed")
    await bench.phase("Waiting")
    assert bench.status()["message"] == "dry run: 2 pods have a place; nothing is done"
    assert not bench.node["spec"].get("unschedulable")


async def test_a_bad_spec_is_shown(bench: DrainBench) -> None:
    bench.ask(deadline={"duration": "soon"})
    await bench.until(lambda: '"soon" is not a valid' in bench.status().get("message", ""))
    await bench.until(lambda: "InvalidDrainNode" in _reasons(bench))


async def test_what_the_api_server_refuses_is_an_event(bench: DrainBench) -> None:
    bench.api.fail(verb="create", plural="reservations", status=403, times=1)
    bench.ask()
    await bench.until(lambda: "FailedDrainStep" in _reasons(bench))
    await bench.phase("Waiting")


def _condition(document: Document, name: str) -> str:
    found = {each["type"]: each["status"] for each in document["status"]["conditions"]}
    return str(found.get(name))


def _reasons(bench: DrainBench) -> list[str]:
    return [each["reason"] for key, each in bench.api.objects.items() if key[0] == EVENTS]


async def test_a_group_drains_its_nodes_one_by_one(bench: DrainBench) -> None:
    for name in "ab":
        bench.api.put(NODES, node(name, cpu="4", labels={"pool": "old"}))
    spec: Document = {"nodeSelector": {"matchLabels": {"pool": "old"}}}
    bench.api.put(DRAIN_NODE_GROUPS, {"metadata": {"name": "g"}, "spec": spec})
    await bench.until(lambda: bench.group.get("phase") == "Waiting")
    assert sorted(each["name"] for each in bench.group["nodes"]) == ["a", "b"]
    assert bench.count(POD_MIGRATION_JOBS) == 0, "without a partition nothing is confirmed"
    targets = {each["targetNode"] for each in bench.status("g-a")["pods"]}
    assert targets == {"c"}, "no pod goes to a node that is to be drained too"
    change = {"spec": {"executionPolicy": {"partition": 2}}}
    await bench.client.patch(DRAIN_NODE_GROUPS, "g", change)
    await bench.until(lambda: bench.group.get("phase") == "Succeeded")
    assert bench.group["counts"]["drained"] == 2
    change = {"spec": {"confirmState": "Aborted"}}
    await bench.client.patch(DRAIN_NODE_GROUPS, "g", change)
    await bench.until(lambda: bench.group.get("message") == "all is undone")
    assert not any(bench.api.get(NODES, name)["spec"].get("unschedulable") for name in "ab")
