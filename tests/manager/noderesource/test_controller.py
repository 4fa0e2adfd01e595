"""Batch, mid and device resources end to end, against the double of the API server."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from koord_kube.protocol.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES, NODES, PODS
from koord_manager.noderesource.controller import NodeResourceController
from koord_model.keys import (
    ANNOTATION_BATCH_WHY,
    BATCH_CPU,
    BATCH_MEMORY,
    GPU_CORE,
    MID_CPU,
)
from koord_model.quantity import whole

from tests.manager.conftest import PACE

ON = '{"enable": true}'
WHOLE = {"cpu": "10", "memory": "10000"}


def node(name="n1", **allocatable):
    status = {"capacity": WHOLE | allocatable, "allocatable": WHOLE | allocatable}
    return {"metadata": {"name": name}, "status": status}


def status(cpu="1", age=0.0):
    usage = {"resources": {"cpu": cpu, "memory": "1000"}}
    at = datetime.fromtimestamp(time.time() - age, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "updateTime": at,
        "nodeMetric": {"nodeUsage": usage, "systemUsage": {}},
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


class Side:
    """The controller and what is in the API."""

    def __init__(self, bench, **more: Any) -> None:
        self.bench = bench
        nodes = bench.nodes(lambda *change: self.made.node_changed(*change))
        self.made = NodeResourceController(
            bench.client,
            nodes,
            bench.configs(),
            gates={},
            tell=bench.told.append,
            period=0.02,
            **more,
        )
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


@pytest.fixture
def bench(bench):
    bench.api.installed |= {PODS, NODE_TOPOLOGIES, DEVICES}
    return bench


async def test_a_node_offers_what_is_left_and_follows_the_load(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(PODS, pod(), "ns")
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    side = Side(bench)
    await side.offers(5000)
    kept = bench.api.get(NODES, "n1")
    assert kept["status"]["capacity"][BATCH_MEMORY] == "5500"
    assert kept["status"]["allocatable"][MID_CPU] == "2k"
    assert kept["metadata"]["annotations"][ANNOTATION_BATCH_WHY].startswith("cpu 5 cores of 10")
    await bench.client.patch(NODE_METRICS, "n1", {"status": status("4")}, subresource="status")
    await side.offers(2000)
    bench.api.delete(PODS, "web", "ns")
    bench.configure(colocation="{}")
    await side.offers(None)
    assert ANNOTATION_BATCH_WHY not in bench.api.get(NODES, "n1")["metadata"]["annotations"]


async def test_zones_of_the_topology(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_TOPOLOGIES, topology(attributes=[{"name": "a", "value": "b"}]))
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    side = Side(bench)
    await side.offers(5000)

    def told():
        zones = bench.api.get(NODE_TOPOLOGIES, "n1")["zones"]
        return [{one["name"]: one["available"] for one in zone["resources"]} for zone in zones]

    await bench.until(lambda: BATCH_CPU in told()[1])
    assert told() == [{"cpu": "5", BATCH_CPU: "2500", BATCH_MEMORY: "0"}] * 2
    assert bench.api.get(NODE_TOPOLOGIES, "n1")["attributes"] == [{"name": "a", "value": "b"}]
    await side.passes()
    writes = bench.api.count("patch", "noderesourcetopologies")
    await side.passes()
    assert bench.api.count("patch", "noderesourcetopologies") == writes == 1


async def test_what_did_not_move_is_not_written_again(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    side = Side(bench)
    await side.offers(5000)
    await side.passes()
    writes = bench.api.count("patch", "nodes")
    await bench.client.patch(NODE_METRICS, "n1", {"status": status("1100m")}, subresource="status")
    await bench.until(lambda: side.made.fleet.decisions("n1")[0].given[-2].value == 4.9)
    await side.passes()
    assert bench.api.count("patch", "nodes") == writes
    assert side.offered() == 5000


async def test_a_report_straight_from_the_node_counts_before_the_object(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node(**{BATCH_CPU: "777", BATCH_MEMORY: "5500"}))
    old = {"metadata": {"name": "n1"}, "status": status(age=3600)}
    bench.api.put(NODE_METRICS, old)
    side = Side(bench, settle=60.0)
    await side.passes()
    assert side.offered() == 777
    side.made.received("n1", json.dumps(status("2")).encode(), time.monotonic())
    await side.offers(4000)
    await bench.client.patch(
        NODE_METRICS, "n1", {"status": status("3", age=3000)}, subresource="status"
    )
    await side.passes()
    assert side.offered() == 4000
    await bench.client.patch(
        NODE_METRICS, "n1", {"status": status("3", age=-60)}, subresource="status"
    )
    await side.offers(3000)


async def test_a_silent_node_is_reset_after_the_nodes_had_time_to_report(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node(**{BATCH_CPU: "777", BATCH_MEMORY: "5500"}))
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
    bench.api.put(NODES, node())
    side = Side(bench)
    await side.passes()
    devices = [{"type": "gpu", "health": True, "resources": {GPU_CORE: "100"}}]
    bench.api.put(DEVICES, {"metadata": {"name": "n1"}, "spec": {"devices": devices}})
    await side.offers(100, GPU_CORE)


async def test_a_bad_configuration_leaves_nodes_as_they_are(bench):
    bench.configure(colocation="{")
    bench.api.put(NODES, node(**{BATCH_CPU: "777"}))
    side = Side(bench)
    await bench.until(lambda: len(bench.told) > 0)
    await asyncio.sleep(0.1)
    assert (side.offered(), side.made.passes) == (777, 0)
    bench.configure(colocation=ON)
    await side.offers(None)


async def test_what_a_node_says_wrongly_is_told_once(bench):
    bench.configure(colocation=ON)
    given = node()
    given["metadata"]["annotations"] = {"node.koordinator.sh/reservation": "{"}
    bench.api.put(NODES, given)
    side = Side(bench)
    await side.passes()
    lines = [line for line in bench.told if "reservation" in line]
    assert len(lines) == 1
    assert lines[0].startswith("n1: Node metadata.annotations.node.koordinator.sh/reservation is")


async def test_a_node_that_goes_is_forgotten(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    side = Side(bench)
    await side.passes()
    bench.api.delete(NODES, "n1")
    await bench.until(lambda: len(side.made.fleet) == 0)
    await side.passes()
    assert side.made.trouble == ""


async def test_a_node_that_comes_again_finds_its_other_objects(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_TOPOLOGIES, topology())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    side = Side(bench)
    await side.offers(5000)
    bench.api.delete(NODES, "n1")
    await bench.until(lambda: len(side.made.fleet) == 0)
    bench.api.put(NODES, node())
    await side.offers(5000)
    assert len(side.made.fleet.desired_zones("n1")) == 2


def remade(bench, **more: Any) -> None:
    """A Node is deleted and made again while nobody watches: the next list has another one."""
    bench.api.expire_watches()
    bench.api.delete(NODES, "n1")
    bench.api.put(NODES, node(**more))


async def test_a_node_that_is_made_again_unseen_keeps_nothing_of_the_old_one(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    side = Side(bench)
    await side.passes()
    side.made.received("n1", json.dumps(status("2")).encode(), time.monotonic())
    await side.offers(4000)
    uid = bench.api.get(NODES, "n1")["metadata"]["uid"]
    remade(bench)
    assert bench.api.get(NODES, "n1")["metadata"]["uid"] != uid
    await bench.until(lambda: side.made.status("n1") is None)
    await side.passes()
    assert side.offered() is None
    outcomes = {one["outcome"] for one in side.made.why("n1")["decisions"]}
    assert "no batch-cpu: there is no NodeMetric of this node" in outcomes
    side.made.received("n1", json.dumps(status("3")).encode(), time.monotonic())
    await side.offers(3000)


@pytest.mark.parametrize("age", [30.0, 90.0])
@pytest.mark.parametrize("unseen", [True, False])
async def test_an_object_of_before_its_node_does_not_count(bench, age, unseen):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status(age=age)})
    side = Side(bench)
    await side.offers(5000)
    bench.api.time = datetime.fromtimestamp(time.time() - 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if unseen:
        remade(bench)
    else:
        bench.api.delete(NODES, "n1")
        await bench.until(lambda: len(side.made.fleet) == 0)
        bench.api.put(NODES, node())
    if age < 60:
        await side.offers(5000)
        return
    await bench.until(lambda: "n1" in side.made.fleet and side.made.status("n1") is None)
    await side.passes()
    assert side.offered() is None
    # The first words of the new one's koordlet.
    await bench.client.patch(NODE_METRICS, "n1", {"status": status("3")}, subresource="status")
    await side.offers(3000)


async def test_an_object_that_is_known_before_its_node_counts_by_the_same_rule(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status(age=90)})
    side = Side(bench)
    await side.passes()
    bench.api.time = datetime.fromtimestamp(time.time() - 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    bench.api.put(NODES, node())
    await bench.until(lambda: "n1" in side.made.fleet)
    await side.passes()
    assert (side.made.status("n1"), side.offered()) == (None, None)


async def test_kinds_that_are_not_installed_are_done_without(bench):
    bench.api.installed -= {NODE_TOPOLOGIES, DEVICES}
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    side = Side(bench)
    await side.offers(5000)
    assert side.made.trouble == ""


async def test_calculations_left_out_leave_what_they_find(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node(**{MID_CPU: "777", GPU_CORE: "5"}))
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    side = Side(bench, calculations=("BatchResource",))
    await side.offers(5000)
    assert (side.offered(MID_CPU), side.offered(GPU_CORE)) == (777, 5)
    assert {one["strategy"] for one in side.made.why("n1")["decisions"]} == {"BatchResource"}
    assert json.loads(side.made.status("n1")) == bench.api.get(NODE_METRICS, "n1")["status"]


async def test_a_refused_write_is_tried_again(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    bench.api.fail(status=503, verb="patch", plural="nodes")
    side = Side(bench)
    await side.offers(5000)
    assert side.made.loop.failures == 1


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00", "9999-12-31T23:59:59", "soon"])
async def test_no_time_in_a_metric_ends_the_controller(bench, at):
    bench.configure(colocation=ON)
    for name in ("n1", "n2"):
        bench.api.put(NODES, node(name))
        bench.api.put(NODE_METRICS, {"metadata": {"name": name}, "status": status()})
    side = Side(bench)
    await side.offers(5000, node_name="n2")
    side.made.received("n1", json.dumps(status("2")).encode(), time.monotonic())
    await side.offers(4000)
    bench.api.put(
        NODE_METRICS, {"metadata": {"name": "n1"}, "status": status("3") | {"updateTime": at}}
    )
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n2"}, "status": status("3")})
    await side.offers(3000, node_name="n2")
    assert side.offered() == 4000
    side.made.received("n1", json.dumps({"updateTime": at}).encode(), time.monotonic())
    await side.offers(None)
    assert side.made.trouble.startswith("NodeMetric of n1 is no NodeMetric status")


class Clock:
    """What the time is, as the test says."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


async def test_a_node_whose_clock_is_ahead_does_not_outlive_its_last_report(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status(age=-86400)})
    clock = Clock()
    side = Side(bench, clock=clock)
    await side.offers(5000)
    clock.now += 14 * 60
    await side.passes()
    assert side.offered() == 5000
    clock.now += 2 * 60
    await side.offers(None)


async def test_late_reports_of_nodes_that_are_gone_are_not_kept(bench):
    bench.configure(colocation=ON)
    side = Side(bench)
    await side.passes()
    for number in range(3):
        name = f"n{number}"
        bench.api.put(NODES, node(name))
        await bench.until(lambda name=name: name in side.made.fleet)
        side.made.received(name, json.dumps(status()).encode(), time.monotonic())
        await side.offers(5000, node_name=name)
        bench.api.delete(NODES, name)
        await bench.until(lambda: len(side.made.fleet) == 0)
        side.made.received(name, json.dumps(status()).encode(), time.monotonic())
        assert side.made.status(name) is None


async def test_nothing_is_written_before_all_is_known_that_decides(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(PODS, pod(), "ns")
    bench.api.put(
        NODE_METRICS, {"metadata": {"name": "n1"}, "status": status() | {"podsMetric": []}}
    )
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
    bench.configure(colocation=ON)
    names = [f"n{number}" for number in range(20)]
    for name in names:
        bench.api.put(NODES, node(name))
        bench.api.put(NODE_METRICS, {"metadata": {"name": name}, "status": status()})
    side = Side(bench)
    for name in names:
        await side.offers(5000, node_name=name)
    await side.passes()
    writes = bench.api.count("patch", "nodes")
    await side.passes(20)
    assert bench.api.count("patch", "nodes") == writes


async def test_amounts_and_why_are_one_write(bench):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
    side = Side(bench)
    await side.offers(5000)
    await side.passes()
    writes = bench.api.count("patch", "nodes")
    await bench.client.patch(NODE_METRICS, "n1", {"status": status("4")}, subresource="status")
    await side.offers(2000)
    await side.passes()
    said = bench.api.get(NODES, "n1")["metadata"]["annotations"][ANNOTATION_BATCH_WHY]
    assert said.startswith("cpu 2 cores of 10")
    assert bench.api.count("patch", "nodes") == writes + 1


async def test_an_answer_that_comes_late_does_not_bring_lost_capacity_back(bench, monkeypatch):
    bench.configure(colocation=ON)
    bench.api.put(NODES, node())
    bench.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status()})
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
    side.made.received("n1", json.dumps(status("2")).encode(), time.monotonic())
    await side.offers(1000)
    assert shrunk == ["n1"]
