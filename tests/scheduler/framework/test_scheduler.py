"""Decisions are those of one pod after the other over all nodes, whatever comes and goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod, SchedulingQueue
from koord_scheduler.framework.recording import Record, RecordingScheduler, recorded_kind
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.self_check import SelfCheck
from koord_scheduler.framework.waker import FLUSH_SECONDS
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node
from koord_scheduler.plugin import CannotReserve, Filter, Plugin, Score
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_reader import PodReader

from tests.support.clusters import random_cluster
from tests.support.clusters.workloads import owned
from tests.support.scheduler_profile import default_plugins
from tests.support.workloads import LIST_DEFAULTS, workload_change

NODES, PODS = ["node", "node", "no-node"], ["pod", "pod", "pod", "gone", "other", "news"]
PROFILES = [
    Profile(
        "default-scheduler",
        default_plugins(args),
    )
    for args in ({}, {"PodTopologySpread": LIST_DEFAULTS})
]


class Cluster:
    """Nodes and pods of random clusters come and go beside a scheduler, which may be recorded."""

    def __init__(self, rng: Random, record: Record | None = None, *, preempts: bool = True) -> None:
        self.rng = rng
        self.by_kind: dict[str, ClusterKind] = {}
        self.profile = replace(rng.choice(PROFILES), preempts=preempts)
        self.scheduler = (
            Scheduler([self.profile])
            if record is None
            else RecordingScheduler(
                [self.profile], record, nodes=ClusterState(), queue=SchedulingQueue()
            )
        )
        now = lambda: self.now  # noqa: E731
        for one in (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, now)):
            followed = one if record is None else recorded_kind(one, record, now)
            self.by_kind[one.resource.kind] = followed
        found = [random_cluster(rng) for _ in range(3)]
        self.nodes = [one for cluster in found for one in cluster["nodes"]]
        kinds = [one for cluster in found for one in [*cluster["pods"], cluster["pod"]]]
        self.kinds = [owned(rng, one) for one in kinds]
        self.workloads: set[tuple[str, str]] = set()
        self.there: set[str] = set()
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
                self.put("Node", name, renamed)
                self.there.add(name)
            case "no-node" if self.there:
                name = rng.choice(sorted(self.there))
                self.there.remove(name)
                self.by_kind["Node"].remove(name)
            case "pod":
                self.create()
            case "gone" if self.documents:
                key = rng.choice(sorted(self.documents))
                del self.documents[key]
                self.by_kind["Pod"].remove(key)
            case "bound" if scheduler.assumed:
                key = rng.choice(sorted(scheduler.assumed))
                self.set(key, nodeName=scheduler.placed.by_key[key].node)
            case "failed" if scheduler.assumed:
                key = rng.choice(sorted(scheduler.assumed))
                scheduler.forget(scheduler.assumed[key], self.now)
            case "workload":
                kind, key, document = workload_change(rng, self.workloads)
                if document is None:
                    self.by_kind[kind].remove(key)
                else:
                    self.put(kind, key, document)
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
        self.put("Pod", key, self.documents[key])

    def put(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        followed = self.by_kind[kind]
        followed.put(key, followed.read(json.dumps(document).encode()))

    def fresh(self, pod: QueuedPod) -> ClassScores:
        """By all labels of the pod, whoever selects by them."""
        alone = replace(pod.waiting.pod_class, labels=pod.waiting.usage.labels)
        return ClassScores(alone, self.scheduler.nodes, self.profile.plugins)

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


class Lender(Plugin):
    """Takes something for every pod."""

    name = "Lender"
    lent = 0

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> object:
        self.lent += 1
        return self.name

    def unreserve(self, reservation: object, nodes: ClusterState) -> None:
        self.lent -= 1


class Failing(Plugin):
    """Has a defect that pods with the label app=odd meet, ``at`` one place."""

    name = "Failing"

    def __init__(self, at: str) -> None:
        self.at = at
        self.is_closed = False
        """Whether it lets no pod through."""

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            self.check("filter", pod)
            if len(rows) == 1:
                self.check("filter of one node", pod)
            return np.full(len(rows), not self.is_closed)

        return can_run

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        def score(rows: Rows) -> Amounts:
            self.check("score", pod)
            return np.zeros(len(rows))

        return score

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> None:
        self.check("reserve", pod)

    def check(self, place: str, pod: PodClass) -> None:
        if place == self.at and dict(pod.labels.labels).get("app") == "odd":
            raise ZeroDivisionError("a defect")


DEFECT = "ZeroDivisionError: a defect"


class FailingCluster:
    """Two nodes, and pods of one CPU each, beside a plugin that fails."""

    def __init__(self, at: str) -> None:
        self.failing, self.lender = Failing(at), Lender()
        plugins = EnabledPlugin(self.lender), EnabledPlugin(self.failing)
        self.scheduler = Scheduler([Profile("default-scheduler", plugins)])
        self.reader = PodReader(self.scheduler.nodes)
        for name in ("n1", "n2"):
            self.scheduler.nodes.set(Node(AnnotatedMeta(name=name)))

    def pod(self, name: str, priority: int = 0, node: str = "") -> None:
        meta = {"name": name, "namespace": "d", "uid": name, "labels": {"app": name}}
        containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
        spec = {"priority": priority, "nodeName": node, "containers": containers}
        raw = json.dumps({"metadata": meta, "spec": spec}).encode()
        self.scheduler.set_pod(self.reader.read(raw), 0.0)

    def decide(self) -> dict[str, str]:
        """The node or the defect of each pod whose turn it is."""
        found = {}
        while (one := self.scheduler.decide(0.0)) is not None:
            found[one.pod.key] = one.node if isinstance(one, Placement) else one.defect
        return found

    def is_consistent(self) -> bool:
        """Whether nodes have what the pods on them need, and no more."""
        check = SelfCheck(self.scheduler.nodes, self.scheduler.placed)
        return not [*check.check_some(), *check.check_some()]


@pytest.mark.parametrize("at", ["filter", "score", "reserve"])
def test_a_plugin_that_fails_costs_its_class_alone(at: str) -> None:
    cluster = FailingCluster(at)
    scheduler = cluster.scheduler
    cluster.pod("odd", priority=1)
    cluster.pod("even")
    decisions = cluster.decide()
    assert decisions["d/odd"] == DEFECT
    assert decisions["d/even"] in ("n1", "n2")
    assert cluster.lender.lent == 1
    cluster.failing.at = ""
    scheduler.nodes.set(Node(AnnotatedMeta(name="n3")))
    assert not scheduler.wake(1.0), "it is not tried again and again"
    assert scheduler.wake(FLUSH_SECONDS)
    assert isinstance(scheduler.decide(FLUSH_SECONDS), Placement)


def test_a_plugin_that_fails_when_a_class_may_be_woken() -> None:
    cluster = FailingCluster("")
    scheduler = cluster.scheduler
    cluster.failing.is_closed = True
    cluster.pod("odd")
    cluster.pod("even")
    assert cluster.decide() == {"d/odd": "", "d/even": ""}
    cluster.failing.at, cluster.failing.is_closed = "filter", False
    scheduler.nodes.set(Node(AnnotatedMeta(name="n3")))
    assert scheduler.wake(1.0) == 2
    assert cluster.decide() == {"d/odd": DEFECT, "d/even": "n3"}


def test_a_plugin_that_fails_beside_nominated_pods() -> None:
    cluster = FailingCluster("filter of one node")
    scheduler = cluster.scheduler
    cluster.pod("important", priority=10)
    [important] = scheduler.queue.pods.values()
    kept = Nomination("d/other", "n1", 10, important.waiting.usage)
    scheduler.nominations.set(kept)
    cluster.pod("odd")
    assert cluster.decide()["d/odd"] == DEFECT
    assert cluster.is_consistent()


def test_a_plugin_that_fails_in_a_dry_run_of_preemption() -> None:
    cluster = FailingCluster("filter of one node")
    cluster.pod("victim", node="n1")
    cluster.failing.is_closed = True
    cluster.pod("odd", priority=10)
    assert cluster.decide() == {"d/odd": DEFECT}
    assert cluster.is_consistent()


class Late(Plugin):
    """Finds out only when a pod is to get a node that it cannot have it."""

    name = "Late"
    rejects: frozenset[str] = frozenset()

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> None:
        if nodes.name(row) in self.rejects:
            raise CannotReserve("no such card")


def test_a_node_that_cannot_have_a_pod_after_all_is_left_out() -> None:
    cluster, late = FailingCluster(""), Late()
    plugins = EnabledPlugin(cluster.lender), EnabledPlugin(late)
    cluster.scheduler = scheduler = Scheduler([Profile("default-scheduler", plugins)])
    cluster.reader = PodReader(scheduler.nodes)
    for name in ("n1", "n2"):
        scheduler.nodes.set(Node(AnnotatedMeta(name=name)))
    for name, other in (("n1", "n2"), ("n2", "n1")):
        late.rejects = frozenset({name})
        cluster.pod(name)
        assert cluster.decide() == {f"d/{name}": other}
    late.rejects = frozenset({"n1", "n2"})
    cluster.pod("a")
    refusal = scheduler.decide(0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.defect == ""
    why = fit_error_message(diagnose(scheduler.scores(refusal.pod), refusal.extenders))
    assert why == "0/2 nodes are available: 2 no such card."
    assert cluster.lender.lent == 2
    assert not scheduler.decide(0.0), "it waits, and not for a minute"
    late.rejects = frozenset()
    scheduler.tick(1.0)
    assert isinstance(scheduler.decide(1.0), Placement)


@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_each_pod_gets_the_best_node_in_its_turn(seed: int, every: int) -> None:
    cluster = Cluster(Random(seed), preempts=False)  # the naive way knows of no nominations
    scheduler = cluster.scheduler
    for number in range(60):
        cluster.change()
        if number % every:
            continue
        cluster.now += 11
        scheduler.tick(cluster.now)
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
