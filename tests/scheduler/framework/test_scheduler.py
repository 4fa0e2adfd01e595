"""Decisions are those of one pod after the other over all nodes, whatever comes and goes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.classes.pod_reader import ClusterPod, PodReader
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.scheduler import Placement, Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.queue.scheduling_queue import QueuedPod

from tests.support.clusters import random_cluster
from tests.support.scheduler_profile import default_plugins

PLUGINS = default_plugins()
NODES, PODS = ["node", "node", "no-node"], ["pod", "pod", "pod", "gone", "other", "news"]
PROFILE = Profile("default-scheduler", PLUGINS)


class Cluster:
    """Nodes and pods of random clusters come and go beside a scheduler."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.scheduler = Scheduler([PROFILE])
        self.reader = PodReader(self.scheduler.nodes)
        found = [random_cluster(rng) for _ in range(3)]
        self.nodes = [one for cluster in found for one in cluster["nodes"]]
        self.kinds = [one for cluster in found for one in [*cluster["pods"], cluster["pod"]]]
        self.there: set[str] = set()
        self.pods: dict[str, ClusterPod] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        self.made = 0
        self.now = 0.0

    def change(self) -> None:
        scheduler, rng = self.scheduler, self.rng
        match rng.choice([*NODES, *PODS, "bound", "failed"]):
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
        return ClassScores(pod.waiting.pod_class, self.scheduler.nodes, PLUGINS)

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
