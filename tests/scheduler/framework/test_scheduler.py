"""Decisions are those of one pod after the other over all nodes, whatever comes and goes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.classes.pod_reader import ClusterPod, PodReader
from koord_scheduler.columns.arrays import Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.plugin import Filter, Plugin
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import FLUSH_SECONDS, Scheduler
from koord_scheduler.objects.metadata import ObjectMeta
from koord_scheduler.objects.node import Node, read_node
from koord_scheduler.queue.scheduling_queue import QueuedPod

from tests.support.clusters import random_cluster
from tests.support.clusters.workloads import owned
from tests.support.scheduler_profile import default_plugins
from tests.support.workloads import LIST_DEFAULTS, change_workload

NODES, PODS = ["node", "node", "no-node"], ["pod", "pod", "pod", "gone", "other", "news"]
PROFILES = [
    Profile(
        "default-scheduler",
        default_plugins(args),
    )
    for args in ({}, {"PodTopologySpread": LIST_DEFAULTS})
]


class Cluster:
    """Nodes and pods of random clusters come and go beside a scheduler."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.profile = rng.choice(PROFILES)
        self.scheduler = Scheduler([self.profile])
        self.reader = PodReader(self.scheduler.nodes)
        found = [random_cluster(rng) for _ in range(3)]
        self.nodes = [one for cluster in found for one in cluster["nodes"]]
        kinds = [one for cluster in found for one in [*cluster["pods"], cluster["pod"]]]
        self.kinds = [owned(rng, one) for one in kinds]
        self.workloads: set[tuple[str, str]] = set()
        self.there: set[str] = set()
        self.pods: dict[str, ClusterPod] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        self.made = 0
        self.now = 0.0

    def change(self) -> None:
        scheduler, rng = self.scheduler, self.rng
        match rng.choice([*NODES, *PODS, "bound", "failed", "workload"]):
            case "node":
                document = rng.choice(self.nodes)
                name = document["metadata"]["name"] + rng.choice(["", "-b", "-c"])
                renamed = {**document, "metadata": {**document["metadata"], "name": name}}
                node = read_node(json.dumps(renamed).encode())
                scheduler.nodes.set(node)
                self.there.add(node.name)
            case "no-node" if self.there:
                name = rng.choice(sorted(self.there))
                self.there.remove(name)
                scheduler.nodes.remove(name)
            case "pod":
                self.create()
            case "gone" if self.documents:
                key = rng.choice(sorted(self.documents))
                del self.documents[key]
                scheduler.remove_pod(key)
            case "bound" if scheduler.assumed:
                key = rng.choice(sorted(scheduler.assumed))
                self.set(key, nodeName=scheduler.placed.by_key[key].node)
            case "failed" if scheduler.assumed:
                key = rng.choice(sorted(scheduler.assumed))
                scheduler.forget(scheduler.assumed[key], self.now)
            case "workload":
                change_workload(rng, scheduler.nodes, self.workloads)
            case "news" if self.documents:
                self.set(rng.choice(sorted(self.documents)))
            case "other" if self.documents:
                self.create(rng.choice(sorted(self.documents)).partition("/")[2])

    def create(self, name: str = "") -> None:
        """A pod, or another one of a name."""
        self.made += 1
        kind = self.rng.choice(self.kinds)
        metadata = {
            **kind["metadata"],
            "name": name or f"p{self.made}",
            "uid": str(self.made),
            "creationTimestamp": f"2026-01-01T00:00:{self.rng.randrange(3):02}Z",
        }
        key = f"{metadata['namespace']}/{metadata['name']}"
        self.documents[key] = {**kind, "metadata": metadata}
        metadata.pop("deletionTimestamp", None)  # one without a node is gone at once
        node = "" if self.rng.random() < 0.7 else kind["spec"].get("nodeName", "")
        self.set(key, nodeName=node, priority=self.rng.choice([0, 0, 10]))

    def set(self, key: str, **spec: Any) -> None:
        document = self.documents[key]
        self.documents[key] = {**document, "spec": {**document["spec"], **spec}}
        pod = self.reader.read(json.dumps(self.documents[key]).encode())
        self.scheduler.set_pod(pod, self.now)

    def fresh(self, pod: QueuedPod) -> ClassScores:
        return ClassScores(pod.waiting.pod_class, self.scheduler.nodes, self.profile.plugins)

    def turn(self, pod: QueuedPod) -> tuple[int, str, int]:
        document = self.documents[pod.key]
        created = document["metadata"]["creationTimestamp"]
        return -document["spec"]["priority"], created, int(document["metadata"]["uid"])

    def decide(self) -> None:
        """Decide all there is, each time as the naive way would."""
        queue = self.scheduler.queue
        while (pod := queue.next()) is not None:
            open_to = [
                one
                for one in queue.pods.values()
                if not one.retry_at and not queue.is_parked(one.class_key)
            ]
            assert pod is min(open_to, key=self.turn)
            fresh = self.fresh(pod)
            row = fresh.best(fresh.feasible())
            decision = self.scheduler.decide(self.now)
            if row is None:
                assert not isinstance(decision, Placement)
            else:
                assert decision == Placement(pod, self.scheduler.nodes.name(row))


class Failing(Plugin):
    """Has a defect that some pods meet."""

    name = "Failing"

    def __init__(self) -> None:
        self.is_mended = False

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            if dict(pod.labels.labels).get("app") == "odd" and not self.is_mended:
                raise ZeroDivisionError("a defect")
            return np.ones(len(rows), np.bool_)

        return can_run


def test_a_plugin_that_fails_costs_its_class_alone() -> None:
    failing = Failing()
    scheduler = Scheduler([Profile("default-scheduler", (EnabledPlugin(failing),))])
    reader = PodReader(scheduler.nodes)
    scheduler.nodes.set(Node(ObjectMeta(name="n1")))
    for name in ("odd", "even"):
        meta = {"name": name, "namespace": "d", "uid": name, "labels": {"app": name}}
        scheduler.set_pod(reader.read(json.dumps({"metadata": meta}).encode()), 0.0)
    decisions = [scheduler.decide(0.0), scheduler.decide(0.0), scheduler.decide(0.0)]
    refusal = next(one for one in decisions if isinstance(one, Refusal))
    placement = next(one for one in decisions if isinstance(one, Placement))
    assert (refusal.pod.key, refusal.defect) == ("d/odd", "ZeroDivisionError: a defect")
    assert (placement.pod.key, decisions[-1]) == ("d/even", None)
    failing.is_mended = True
    scheduler.nodes.set(Node(ObjectMeta(name="n2")))
    assert not scheduler.wake(1.0), "it is not tried again and again"
    assert scheduler.wake(FLUSH_SECONDS)
    assert isinstance(scheduler.decide(FLUSH_SECONDS), Placement)


@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_each_pod_gets_the_best_node_in_its_turn(seed: int, every: int) -> None:
    cluster = Cluster(Random(seed))
    scheduler = cluster.scheduler
    for number in range(60):
        cluster.change()
        if number % every:
            continue
        cluster.now += 11
        scheduler.queue.tick(cluster.now)
        cluster.decide()
        while scheduler.wake(cluster.now):
            cluster.decide()
        queued = scheduler.queue.pods
        assert not any(len(cluster.fresh(pod).feasible()) for pod in queued.values())
        for pod in queued.values():
            assert pod.uid == cluster.documents[pod.key]["metadata"]["uid"]
        placed = set(scheduler.placed.by_key)
        assert not placed & set(queued)
        assert placed | set(queued) == set(cluster.documents)
        assert scheduler.queue.counts() == {
            "active": 0,
            "backoff": 0,
            "unschedulable": len(queued),
            "gated": 0,
        }
