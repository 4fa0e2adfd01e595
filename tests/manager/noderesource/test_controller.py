"""Batch, mid and device resources end to end, against the double of the API server."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from koord_kube.informer import Informer
from koord_kube.protocol.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES, NODES, PODS
from koord_manager.noderesource.controller import NodeResourceController
from koord_manager.noderesource.core.pods import read_pod_summary
from koord_model.keys import ANNOTATION_BATCH_WHY, BATCH_CPU, BATCH_MEMORY, GPU_CORE, MID_CPU
from koord_model.quantity import whole

from tests.manager.conftest import PACE

ON = '{"enable": true}'
WHOLE = {"cpu": "10", "memory": "10000"}


def node(name="n1", **allocatable):
    status = {"capacity": WHOLE | allocatable, "allocatable": WHOLE | allocatable}
    return {"metadata": {"name": name}, "status": status}


def status(cpu="1", age=0.0):
    usage = {"resources": {"cpu": cpu, "memory": "1000"}}
    idle = {"resources": {"cpu": "0", "memory": "0"}}
    return {
        "updateTime": stamp(age),
        "nodeMetric": {"nodeUsage": usage, "systemUsage": idle},
        "podsMetric": [{"namespace": "ns", "name": "web", "podUsage": usage}],
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": "2", "memory": "2000"}}},
    }


def pod(name="web", node_name="n1"):
    requests = {"cpu": "3", "memory": "3000"}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


def topology(**more):
    cpu = {"name": "cpu", "capacity": "5", "allocatable": "5", "available": "5"}
    zones = [{"name": f"node-{one}", "type": "Node", "resources": [cpu]} for one in range(2)]
    return {"metadata": {"name": "n1"}, "topologyPolicies": ["None"], "zones": zones} | more


def stamp(ago: float) -> str:
    return datetime.fromtimestamp(time.time() - ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Side:
    """The controller and what is in the API."""

    def __init__(self, bench, **more: Any) -> None:
        self.bench = bench
        nodes = bench.nodes(lambda *change: self.made.node_changed(*change))
        configs, on_warning = bench.configs(), bench.reported.append
        more = {"gates": {}, "on_warning": on_warning, "period": 0.02} | more
        pods = Informer(
            bench.client,
            PODS,
            decode=read_pod_summary,
            on_change=lambda *change: self.made.pod_changed(*change),
            on_warning=on_warning,
            timing=more.get("pace"),
        )
        self.made = NodeResourceController(bench.client, nodes, pods, configs, **more)
        bench.run(pods.run())
        bench.run(self.made.run())

    def offered(self, name: str = BATCH_CPU, node_name: str = "n1") -> int | None:
        kept = self.bench.api.get(NODES, node_name)["status"]["allocatable"].get(name)
        return None if kept is None else whole(kept)

    async def offers(
        self, amount: int | None, name: str = BATCH_CPU, node_name: str = "n1"
    ) -> None:
        await self.bench.until(lambda: self.offered(name, node_name) == amount)

    async def passes(self, number: int = 3) -> None:
        end = self.made.passes + number
        await self.bench.until(lambda: self.made.passes >= end and not len(self.made.loop))

    async def gone(self) -> None:
        self.bench.api.delete(NODES, "n1")
        await self.bench.until(lambda: len(self.made.fleet) == 0)

    def receive(self, name: str = "n1", **given: Any) -> None:
        """A report comes straight from the node."""
        self.made.received(name, json.dumps(status(**given)).encode(), time.monotonic())

    async def patch_metric(self, **given: Any) -> None:
        change = {"status": status(**given)}
        await self.bench.client.patch(NODE_METRICS, "n1", change, subresource="status")

    async def unseen(self) -> None:
        """There is no metric that counts, and nothing is offered."""
        await self.bench.until(lambda: "n1" in self.made.fleet and self.made.status("n1") is None)
        await self.passes()
        assert self.offered() is None


def put_metric(bench, name: str = "n1", more: Any = None, **given: Any) -> None:
    document = {"metadata": {"name": name}, "status": status(**given) | (more or {})}
    bench.api.put(NODE_METRICS, document)


@pytest.fixture
def bench(bench):
    """Co-location is on, and there is one node."""
    bench.api.installed |= {PODS, NODE_TOPOLOGIES, DEVICES}
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    return bench


async def test_a_node_offers_what_is_left_and_follows_the_load(bench):
    bench.api.put(PODS, pod(), "ns")
    put_metric(bench)
    side = Side(bench)
    await side.offers(5000)
    kept = bench.api.get(NODES, "n1")
    assert kept["status"]["capacity"][BATCH_MEMORY] == "5500"
    assert kept["status"]["allocatable"][MID_CPU] == "2k"
    assert kept["metadata"]["annotations"][ANNOTATION_BATCH_WHY].startswith("cpu 5 cores of 10")
    await side.passes()
    writes = bench.api.count("patch", "nodes")

    # What hardly moved is not written; amounts and their reason are one write.
    await side.patch_metric(cpu="1100m")
    await bench.until(lambda: side.made.fleet.decisions("n1")[0].given[-2].value == 4.9)
    await side.passes()
    assert (bench.api.count("patch", "nodes"), side.offered()) == (writes, 5000)
    await side.patch_metric(cpu="4")
    await side.offers(2000)
    await side.passes()
    annotations = bench.api.get(NODES, "n1")["metadata"]["annotations"]
    assert annotations[ANNOTATION_BATCH_WHY].startswith("cpu 2 cores of 10")
    assert bench.api.count("patch", "nodes") == writes + 1

    bench.api.delete(PODS, "web", "ns")
    bench.configure(colocation="{}")
    await side.offers(None)
    assert ANNOTATION_BATCH_WHY not in bench.api.get(NODES, "n1")["metadata"]["annotations"]


async def test_zones_are_written_once_and_keep_what_else_they_say(bench):
    bench.api.put(NODE_TOPOLOGIES, topology(attributes=[{"name": "a", "value": "b"}]))
    put_metric(bench)
    side = Side(bench)
    await side.offers(5000)

    def available():
        zones = bench.api.get(NODE_TOPOLOGIES, "n1")["zones"]
        return [{one["name"]: one["available"] for one in zone["resources"]} for zone in zones]

    await bench.until(lambda: BATCH_CPU in available()[1])
    assert available() == [{"cpu": "5", BATCH_CPU: "2500", BATCH_MEMORY: "0"}] * 2
    assert bench.api.get(NODE_TOPOLOGIES, "n1")["attributes"] == [{"name": "a", "value": "b"}]
    await side.passes(6)
    assert bench.api.count("patch", "noderesourcetopologies") == 1


async def test_a_report_straight_from_the_node_counts_before_the_object(bench):
    bench.api.put(NODES, node(**{BATCH_CPU: "777", BATCH_MEMORY: "5500"}))
    put_metric(bench, age=3600)
    side = Side(bench, settle=60.0)
    await side.passes()
    assert side.offered() == 777
    side.receive(cpu="2")
    await side.offers(4000)
    await side.patch_metric(cpu="3", age=3000)
    await side.passes()
    assert side.offered() == 4000
    await side.patch_metric(cpu="3", age=-60)
    await side.offers(3000)


async def test_a_silent_node_is_reset_after_the_nodes_had_time_to_report(bench):
    bench.api.put(NODES, node(**{BATCH_CPU: "777", BATCH_MEMORY: "5500"}))
    often = '{"enable": true, "metricReportIntervalSeconds": 1}'
    bench.configure(colocation=often)
    side = Side(bench, settle=0.3)
    await side.offers(None)
    why = side.made.why("n1")
    outcomes = [one["outcome"] for one in why["history"] if one["aspect"] == "batch-cpu"]
    assert outcomes == [
        "no batch-cpu: there is no NodeMetric of this node",
        "batch-cpu stays as it is: nodes are given time to report to this manager",
    ]
    strategies = {one["strategy"] for one in why["decisions"]}
    assert {"BatchResource", "MidResource", "CPUNormalization"} <= strategies
    assert not side.made.why("other")["decides"]


async def test_devices_are_written_without_waiting_for_a_pass(bench):
    side = Side(bench, period=3600.0)
    await side.passes(1)
    devices = [{"type": "gpu", "health": True, "resources": {GPU_CORE: "100"}}]
    bench.api.put(DEVICES, {"metadata": {"name": "n1"}, "spec": {"devices": devices}})
    await side.offers(100, GPU_CORE)


async def test_a_bad_configuration_leaves_nodes_as_they_are(bench):
    bench.configure(colocation="{")
    bench.api.put(NODES, node(**{BATCH_CPU: "777"}))
    side = Side(bench)
    await bench.until(lambda: len(bench.reported) > 0)
    await asyncio.sleep(0.1)
    assert (side.offered(), side.made.passes) == (777, 0)
    bench.configure(colocation=ON)
    await side.offers(None)


async def test_a_bad_annotation_is_logged_once(bench):
    bad = node()
    bad["metadata"]["annotations"] = {"node.koordinator.sh/reservation": "{"}
    bench.api.put(NODES, bad)
    side = Side(bench)
    await side.passes()
    [line] = [line for line in bench.reported if "reservation" in line]
    assert line.startswith("n1: Node metadata.annotations.node.koordinator.sh/reservation is")


async def test_a_node_that_comes_again_finds_its_other_objects(bench):
    bench.api.put(NODE_TOPOLOGIES, topology())
    put_metric(bench)
    side = Side(bench)
    await side.offers(5000)
    await side.gone()
    await side.passes()
    assert side.made.problem == ""
    bench.api.put(NODES, node())
    await side.offers(5000)
    assert len(side.made.fleet.desired_zones("n1")) == 2


def recreate_unseen(bench) -> None:
    """A Node is deleted and made again while nobody watches: the next list has another one."""
    bench.api.expire_watches()
    bench.api.delete(NODES, "n1")
    bench.api.put(NODES, node())


async def test_a_node_that_is_made_again_unseen_keeps_nothing_of_the_old_one(bench):
    side = Side(bench)
    await side.passes()
    side.receive(cpu="2")
    await side.offers(4000)
    recreate_unseen(bench)
    await side.unseen()
    outcomes = {one["outcome"] for one in side.made.why("n1")["decisions"]}
    assert "no batch-cpu: there is no NodeMetric of this node" in outcomes
    side.receive(cpu="3")
    await side.offers(3000)


@pytest.mark.parametrize("age", [30.0, 90.0])
@pytest.mark.parametrize("unseen", [True, False])
async def test_an_object_of_before_its_node_does_not_count(bench, age, unseen):
    put_metric(bench, age=age)
    side = Side(bench)
    await side.offers(5000)
    bench.api.time = stamp(60)
    if unseen:
        recreate_unseen(bench)
    else:
        await side.gone()
        bench.api.put(NODES, node())
    if age < 60:
        await side.offers(5000)
        return
    await side.unseen()
    await side.patch_metric(cpu="3")  # the first words of the new one's koordlet
    await side.offers(3000)


async def test_an_object_that_is_known_before_its_node_counts_by_the_same_rule(bench):
    bench.api.delete(NODES, "n1")
    put_metric(bench, age=90)
    side = Side(bench)
    await side.passes()
    bench.api.time = stamp(60)
    bench.api.put(NODES, node())
    await side.unseen()


async def test_kinds_that_are_not_installed_are_done_without(bench):
    bench.api.installed -= {NODE_TOPOLOGIES, DEVICES}
    put_metric(bench)
    side = Side(bench)
    await side.offers(5000)
    assert side.made.problem == ""


async def test_calculations_left_out_leave_what_they_find(bench):
    bench.api.put(NODES, node(**{MID_CPU: "777", GPU_CORE: "5"}))
    put_metric(bench)
    side = Side(bench, calculations=("BatchResource",))
    await side.offers(5000)
    assert (side.offered(MID_CPU), side.offered(GPU_CORE)) == (777, 5)
    assert {one["strategy"] for one in side.made.why("n1")["decisions"]} == {"BatchResource"}
    assert json.loads(side.made.status("n1")) == bench.api.get(NODE_METRICS, "n1")["status"]


async def test_a_refused_write_is_tried_again(bench):
    put_metric(bench)
    bench.api.fail(status=503, verb="patch", plural="nodes")
    side = Side(bench)
    await side.offers(5000)
    assert side.made.loop.failures == 1


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00", "9999-12-31T23:59:59", "soon"])
async def test_no_time_in_a_metric_ends_the_controller(bench, at):
    bench.api.put(NODES, node("n2"))
    for name in ("n1", "n2"):
        put_metric(bench, name)
    side = Side(bench)
    await side.offers(5000, node_name="n2")
    side.receive(cpu="2")
    await side.offers(4000)
    put_metric(bench, more={"updateTime": at}, cpu="3")
    put_metric(bench, "n2", cpu="3")
    await side.offers(3000, node_name="n2")
    assert side.offered() == 4000
    side.made.received("n1", json.dumps({"updateTime": at}).encode(), time.monotonic())
    await side.offers(None)
    assert side.made.problem.startswith("NodeMetric of n1 is not a valid NodeMetric status")


async def test_a_node_whose_clock_is_ahead_does_not_outlive_its_last_report(bench):
    put_metric(bench, age=-86400)
    now = [time.time()]
    side = Side(bench, clock=lambda: now[0])
    await side.offers(5000)
    now[0] += 14 * 60
    await side.passes()
    assert side.offered() == 5000
    now[0] += 2 * 60
    await side.offers(None)


async def test_late_reports_of_nodes_that_are_gone_are_not_kept(bench):
    side = Side(bench)
    await side.passes()
    side.receive()
    await side.offers(5000)
    await side.gone()
    side.receive()
    assert side.made.status("n1") is None


async def test_nothing_is_written_before_all_is_known_that_decides(bench):
    bench.api.put(PODS, pod(), "ns")
    put_metric(bench, more={"podsMetric": []})
    bench.api.fail(status=503, verb="watch", plural="pods", times=3)
    side = Side(bench, pace=PACE)
    offered = set()

    def seen() -> bool:
        offered.add(side.offered())
        return side.offered() is not None

    await bench.until(seen)
    assert offered <= {None, 3000}
    assert bench.api.count("watch", "pods") == 4


async def test_of_many_nodes_each_part_is_written(bench, monkeypatch):
    monkeypatch.setattr("koord_manager.noderesource.core.fleet.PART", 8)
    names = [f"n{number}" for number in range(20)]
    for name in names:
        bench.api.put(NODES, node(name))
        put_metric(bench, name)
    side = Side(bench)
    for name in names:
        await side.offers(5000, node_name=name)
    await side.passes()
    writes = bench.api.count("patch", "nodes")
    await side.passes(20)
    assert bench.api.count("patch", "nodes") == writes


async def test_an_answer_that_comes_late_does_not_bring_lost_capacity_back(bench, monkeypatch):
    put_metric(bench)
    side = Side(bench)
    await side.passes()
    patch = bench.client.patch
    shrunk = []

    def capacity() -> float:
        given = side.made.fleet.decisions("n1")[0].given
        return {one.name: one.value for one in given}["capacity"]

    async def late(resource: Any, name: str, change: Any, **more: Any) -> Any:
        answer = await patch(resource, name, change, **more)
        if resource is NODES and not shrunk:
            shrunk.append(name)
            kept = bench.api.get(NODES, name)
            for one in ("capacity", "allocatable"):
                kept["status"][one] = kept["status"][one] | {"cpu": "5"}
            bench.api.put(NODES, kept)
            await bench.until(lambda: capacity() == 5)
        return answer

    monkeypatch.setattr(bench.client, "patch", late)
    side.receive(cpu="2")
    await side.offers(1000)
    assert shrunk == ["n1"]


async def test_real_time_ratios_move_by_steps_and_never_start_at_the_configured_one(bench):
    config = {
        "enable": True,
        "resourceAmplificationRatio": {"cpu": 1.5},
        "extensions": {"pykoord": {"realtime": {"enable": True, "stepPercent": 1000}}},
    }
    bench.configure(colocation=ON, **{"resource-amplification": json.dumps(config)})
    bench.api.put(PODS, pod(), "ns")
    seen: list[str] = []

    def ratio() -> str:
        annotations = bench.api.get(NODES, "n1")["metadata"].get("annotations") or {}
        seen.append(annotations.get("node.koordinator.sh/resource-amplification-ratio", ""))
        return seen[-1]

    put_metric(bench)
    side = Side(bench)
    await bench.until(lambda: ratio() == '{"cpu":1.50}')  # (6 - 1) / 0.4 + 3 of ten cores
    assert seen[-2] != '{"cpu":1.50}'
    assert '{"cpu":1.00}' in seen
    why = side.made.why("n1")
    assert "min(configured, real time)" in json.dumps(why)
