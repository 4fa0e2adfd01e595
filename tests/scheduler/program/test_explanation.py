"""Why a pod waits, or has its node, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.diagnosis import Diagnosis, PluginRejections, diagnose
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node, NodeSpec, NodeStatus
from koord_scheduler.plugin import ANOTHER_POD, Plugin
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource
from koord_scheduler.program.explanation import (
    Document,
    Now,
    explain_placed,
    explain_waiting,
    read_as_pending,
)
from koord_scheduler.program.waking_changes import waking_changes
from koord_scheduler.state.pod_reader import ClusterPod, PodReader

from tests.support.quota_cluster import QuotaCluster

PROFILE = default_scheduler_config().profiles[0].guarded()
CREATED = "2026-01-01T00:00:00Z"
NOW = Now(100.0, 1767225690.0)
"""90 seconds after pods were created, 10 seconds after the scheduler heard of them."""


class Shop:
    """A scheduler that has heard of nodes, and of pods of a namespace."""

    def __init__(self, **cpu: str) -> None:
        self.scheduler = Scheduler([PROFILE])
        self.reader = PodReader(self.scheduler.nodes)
        for name, amount in cpu.items():
            self.node(name, amount)

    def node(self, name: str, cpu: str, *, unschedulable: bool = False) -> None:
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        spec = NodeSpec(unschedulable=unschedulable)
        self.scheduler.nodes.set(Node(AnnotatedMeta(name), spec, NodeStatus(amounts)))

    def document(self, name: str, cpu: str, **spec: Any) -> dict[str, Any]:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": name, "namespace": "shop", "creationTimestamp": CREATED}
        return {"metadata": metadata, "spec": {"containers": [container], **spec}}

    def pod(self, name: str, cpu: str = "1", nominated: str = "", **spec: Any) -> ClusterPod:
        status = {"nominatedNodeName": nominated}
        raw = json.dumps({**self.document(name, cpu, **spec), "status": status}).encode()
        made = self.reader.read(raw)
        self.scheduler.set_pod(made, NOW.monotonic - 10.0)
        return made

    def why(self, pod: ClusterPod) -> Document:
        return explain_waiting(self.scheduler, pod, NOW)

    def why_placed(self, name: str, cpu: str = "1", **spec: Any) -> Document:
        raw = json.dumps(self.document(name, cpu, **spec)).encode()
        placed = self.scheduler.placed.by_key[f"shop/{name}"]
        return explain_placed(self.scheduler, placed, read_as_pending(raw, self.scheduler.nodes))


def fields(found: Document, *names: str) -> list[Any]:
    return [found[name] for name in names]


def test_a_pod_waits_for_its_turn_and_then_for_room() -> None:
    shop = Shop(n1="1500m", n2="500m")
    pod = shop.pod("web", "2", priority=7)
    before = shop.why(pod)
    assert fields(before, "pod", "state", "priority") == ["shop/web", "active", 7]
    assert before["at"] - before["since"] == 90.0
    shop.scheduler.decide(NOW.monotonic)
    found = shop.why(pod)
    assert found["state"] == "unschedulable"
    diagnosis = found["diagnosis"]
    assert fields(diagnosis, "nodes", "feasible") == [2, 0]
    assert diagnosis["plugins"] == [{"plugin": "NodeResourcesFit", "nodes": 2, "alone": 2}]
    assert diagnosis["reasons"] == {"Insufficient cpu": 2}
    assert [(one["node"], one["lacks"]) for one in diagnosis["nearest"]] == [
        ("n1", {"cpu": "500m"}),
        ("n2", {"cpu": "1500m"}),
    ]
    assert found["best"] == []
    json.dumps(found)  # plain data


def test_a_pod_without_a_creation_time_waits_since_it_is_known() -> None:
    shop = Shop()
    document = shop.document("web", "1")
    del document["metadata"]["creationTimestamp"]
    pod = shop.reader.read(json.dumps(document).encode())
    shop.scheduler.set_pod(pod, NOW.monotonic - 10.0)
    found = shop.why(pod)
    assert found["at"] - found["since"] == 10.0


def test_gates_are_named_and_nothing_else_is_looked_at() -> None:
    shop = Shop(n1="4")
    found = shop.why(shop.pod("web", schedulingGates=[{"name": "a/b"}, {"name": "c"}]))
    assert fields(found, "state", "gates") == ["gated", ["a/b", "c"]]
    assert "diagnosis" not in found


def test_a_pod_whose_binding_failed_backs_off() -> None:
    shop = Shop(n1="4")
    pod = shop.pod("web")
    decision = shop.scheduler.decide(NOW.monotonic)
    assert isinstance(decision, Placement)
    shop.scheduler.forget(decision.pod, NOW.monotonic - 0.25)
    found = shop.why(pod)
    assert fields(found, "state", "attempts", "retry_seconds") == ["backoff", 1, 0.8]
    assert [one["node"] for one in found["best"]] == ["n1"]


def test_room_that_is_kept_for_nominated_pods() -> None:
    shop = Shop(n1="4", n2="500m")
    first = shop.pod("first", "3", nominated="n1", priority=10)
    second = shop.pod("second", "2")
    assert fields(shop.why(first), "nominated_node", "held_nodes") == ["n1", 0]
    found = shop.why(second)
    assert fields(found, "nominated_node", "held_nodes") == ["", 1]
    assert found["diagnosis"]["feasible"] == 1


@pytest.mark.parametrize(
    ("spec", "metadata", "state"),
    [
        ({"schedulerName": "other"}, {}, "foreign"),
        ({}, {"deletionTimestamp": CREATED}, "leaving"),
    ],
)
def test_pods_that_do_not_wait_here(
    spec: dict[str, Any], metadata: dict[str, Any], state: str
) -> None:
    shop = Shop(n1="4")
    document = shop.document("web", "1", **spec)
    document["metadata"] |= metadata
    pod = shop.reader.read(json.dumps(document).encode())
    shop.scheduler.set_pod(pod, 0.0)
    found = shop.why(pod)
    assert found["state"] == state
    assert "shop/web" in found["reason"]


def test_a_placed_pod_is_scored_as_if_it_were_not_there() -> None:
    shop = Shop(a="4", b="8", c="16", d="32")
    shop.pod("web", "2", nodeName="a")
    shop.pod("small", "1", nodeName="d")
    before = [*shop.scheduler.placed.by_key.values()]
    found = shop.why_placed("web", "2", nodeName="a")
    assert fields(found, "state", "node", "nodes", "feasible") == ["bound", "a", 4, 4]
    assert found["rejected_by"] == []
    assert [one["rank"] for one in found["best"]] == [1, 2, 3, 4]
    # Half of 4 CPUs, and a few of 16 GiB.
    own = found["best"][-1]
    assert own["node"] == "a"
    assert own["by_plugin"]["NodeResourcesFit"] == (50 + 98) // 2
    assert sorted(shop.scheduler.placed.by_key.values()) == sorted(before)
    json.dumps(found)


def test_a_pod_of_which_there_is_no_word_yet_is_assumed() -> None:
    shop = Shop(n1="4")
    shop.pod("web")
    shop.scheduler.decide(NOW.monotonic)
    assert fields(shop.why_placed("web"), "state", "node") == ["assumed", "n1"]
    assert "shop/web" in shop.scheduler.assumed


def test_a_node_that_would_not_take_its_pod_again() -> None:
    shop = Shop(n2="4")
    shop.pod("web", "2", nodeName="n1")
    assert fields(shop.why_placed("web", "2"), "is_node", "rejected_by") == [False, []]
    shop.node("n1", "1", unschedulable=True)
    found = shop.why_placed("web", "2")
    assert found["is_node"]
    assert found["rejected_by"] == ["NodeUnschedulable", "NodeResourcesFit"]
    assert [one["node"] for one in found["best"]] == ["n2"]


def test_a_pod_that_another_scheduler_placed() -> None:
    shop = Shop(n1="4")
    shop.pod("web", nodeName="n1", schedulerName="other")
    found = shop.why_placed("web", schedulerName="other")
    assert fields(found, "state", "node") == ["bound", "n1"]
    assert "other" in found["reason"]
    assert "best" not in found


PLUGINS = ("NodePorts", "NodeResourcesFit", "TaintToleration", "Quota")
NAMES = st.lists(st.sampled_from(PLUGINS), unique=True)


def rejected(feasible: int, *plugins: PluginRejections) -> Diagnosis:
    return Diagnosis(9, feasible, "", {}, plugins, (), np.zeros(0, np.intp))


@given(NAMES, NAMES)
def test_what_may_let_a_pod_fit_is_what_the_plugins_wait_for(
    alone: Sequence[str], others: Sequence[str]
) -> None:
    """Each that rejects some node alone is an alternative; otherwise all have to give way."""
    rejections = [PluginRejections(name, 3, 1, f"help for {name}") for name in alone]
    rejections += [
        PluginRejections(name, 3, 0, f"help for {name}") for name in others if name not in alone
    ]
    found = waking_changes(rejected(0, *rejections))
    alternatives = [[name] for name in alone] or ([others] if others else [])
    for words, names in zip(found, alternatives, strict=bool(alone or others)):
        assert words == " and ".join(f"help for {name} ({name})" for name in names)


def test_nothing_has_to_change_where_a_pod_fits() -> None:
    rejections = PluginRejections("NodePorts", 2, 2, "free ports")
    assert waking_changes(rejected(1, rejections)) == []
    assert waking_changes(replace(rejected(0, rejections), nodes=0)) != []
    assert waking_changes(rejected(0, rejections)) == ["free ports (NodePorts)"]


def test_every_plugin_of_the_default_profile_that_rejects_says_what_helps() -> None:
    filtering = [one.plugin for one in PROFILE.plugins if one.filters]
    silent = {one.name for one in filtering if one.helped_by == Plugin.helped_by}
    assert silent <= {"NodeResourcesBalancedAllocation", "ImageLocality"}


@pytest.mark.parametrize(
    ("cpus", "quota", "annotations", "expected"),
    [
        (9, "", {}, "nodes with more room (NodeResourcesFit)"),
        (7, "", {}, "pods that end, or nodes with more room (NodeResourcesFit)"),
        (2, "small", {}, "pods of its quota that end, or a quota that may use more (ElasticQuota)"),
        (4, "small", {}, "a quota with a larger max (ElasticQuota)"),
        (1, "", {"resource-spec": "{broken"}, f"{ANOTHER_POD} (NodeNUMAResource)"),
    ],
)
def test_what_cannot_help_is_not_advised(
    cpus: int, quota: str, annotations: dict[str, str], expected: str
) -> None:
    cluster = QuotaCluster("n1", more=[NodeNUMAResource()])
    cluster.quota("small", 3)
    cluster.pod("busy", "small", 2, "n1")
    labels = {"koordinator.sh/qosClass": "LSR"} if "resource-spec" in annotations else {}
    noted = {f"scheduling.koordinator.sh/{key}": text for key, text in annotations.items()}
    cluster.pod("web", quota, cpus, priority=9500, labels=labels, annotations=noted)
    diagnosis = diagnose(cluster.scheduler.scores(cluster.scheduler.queue.pods["shop/web"]))
    assert waking_changes(diagnosis) == [expected]
