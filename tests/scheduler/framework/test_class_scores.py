"""What is kept about a class of pods is what asking about all nodes again would give."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.classes.placed_pod import placed_usage
from koord_scheduler.classes.pod_class import pod_class
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.objects.node import Node, read_node
from koord_scheduler.objects.pod import PodInfo, read_pod

from tests.support.clusters import random_cluster
from tests.support.clusters.workloads import owned
from tests.support.scheduler_profile import default_plugins
from tests.support.workloads import LIST_DEFAULTS, change_workload

PLUGINS = [default_plugins(args) for args in ({}, {"PodTopologySpread": LIST_DEFAULTS})]
CHANGES = ["node", "node", "pod", "pod", "pod", "no pod", "no node", "namespace", "workload"]


def pod(document: dict[str, Any]) -> PodInfo:
    return read_pod(json.dumps(document).encode())


class Life:
    """A cluster in which nodes and pods of two random clusters come and go."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.columns = NodeColumns(length=2)
        both = random_cluster(rng), random_cluster(rng)
        self.nodes = [one for cluster in both for one in cluster["nodes"]]
        self.pods = [pod(one) for cluster in both for one in cluster["pods"]]
        self.plugins = rng.choice(PLUGINS)
        self.waiting = [pod_class(pod(owned(rng, cluster["pod"]))) for cluster in both]
        self.kept = [ClassScores(one, self.columns, self.plugins) for one in self.waiting]
        self.there: set[str] = set()
        self.placed: list[PodInfo] = []
        self.workloads: set[tuple[str, str]] = set()

    def change(self) -> None:
        columns, rng = self.columns, self.rng
        match rng.choice(CHANGES):
            case "node":
                node = read_node(json.dumps(rng.choice(self.nodes)).encode())
                columns.set(node)
                self.there.add(node.name)
            case "no node" if self.there:
                name = rng.choice(sorted(self.there))
                self.there.remove(name)
                columns.remove(name)
            case "pod":
                chosen = rng.choice(self.pods)
                self.placed.append(chosen)
                columns.add_pod(chosen.spec.node_name, placed_usage(chosen, columns))
            case "no pod" if self.placed:
                chosen = self.placed.pop(rng.randrange(len(self.placed)))
                columns.remove_pod(chosen.spec.node_name, placed_usage(chosen, columns))
            case "namespace":
                columns.namespaces.set(rng.choice(["default", "prod"]), {"env": rng.choice("ab")})
            case "workload":
                change_workload(rng, columns, self.workloads)


@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_kept_answers_are_fresh_ones(seed: int, every: int) -> None:
    life = Life(Random(seed))
    for number in range(40):
        life.change()
        if number % every:
            continue
        for kept, waiting in zip(life.kept, life.waiting, strict=True):
            fresh = ClassScores(waiting, life.columns, life.plugins)
            rows = fresh.feasible()
            assert kept.feasible().tolist() == rows.tolist()
            assert kept.totals(rows).tolist() == fresh.totals(rows).tolist()
            best = kept.best(rows)
            assert best == fresh.best(rows)
            if best is not None:
                assert life.columns.name(best) in life.there
                assert kept.totals(rows).max() == kept.totals(rows)[rows.tolist().index(best)]
                assert kept.rejections(best) == []


def test_a_named_node_that_is_gone_leaves_its_row_to_another() -> None:
    columns = NodeColumns()
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    scores = ClassScores(pod_class(pod({"spec": {"affinity": affinity}})), columns, PLUGINS[0])

    def node(name: str) -> Node:
        document = {"metadata": {"name": name}, "status": {"allocatable": {"pods": 9}}}
        return read_node(json.dumps(document).encode())

    first = columns.set(node("n1"))
    assert scores.feasible().tolist() == [first]
    columns.remove("n1")
    assert columns.set(node("n2")) == first
    assert scores.feasible().tolist() == []
    again = columns.set(node("n1"))
    assert scores.feasible().tolist() == [again]
