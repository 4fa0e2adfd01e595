"""What is kept about a class of pods is what asking about all nodes again would give."""

from __future__ import annotations

import json
from collections.abc import Hashable
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.row_scores import SharedScores
from koord_scheduler.objects.node import Node, read_node
from koord_scheduler.objects.pod import PodInfo, read_pod
from koord_scheduler.plugin import Dependence, Filter, Plugin
from koord_scheduler.plugins.node_resources_fit_plus import (
    FitPlusSettings,
    NodeResourcesFitPlus,
)
from koord_scheduler.plugins.scarce_resource_avoidance import ScarceResourceAvoidance
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.support.clusters import random_cluster
from tests.support.clusters.workloads import owned
from tests.support.prepared import prepared
from tests.support.scheduler_profile import default_plugins
from tests.support.workloads import LIST_DEFAULTS, change_workload

OF_KOORDINATOR = (
    EnabledPlugin(NodeResourcesFitPlus(FitPlusSettings({"cpu": 1}, {"memory": 3}))),
    EnabledPlugin(ScarceResourceAvoidance(frozenset({"example.com/gpu"}))),
)
PLUGINS = [
    (*default_plugins(args), *OF_KOORDINATOR) for args in ({}, {"PodTopologySpread": LIST_DEFAULTS})
]
BUSY = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}
CHANGES = ["node", "node", "pod", "pod", "pod", "no pod", "no node", "namespace", "workload"]


def pod(document: dict[str, Any]) -> PodInfo:
    return read_pod(json.dumps(document).encode())


class Life:
    """A cluster in which nodes and pods of two random clusters come and go."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        both = random_cluster(rng), random_cluster(rng)
        self.nodes = [one for cluster in both for one in cluster["nodes"]]
        self.pods = [pod(one) for cluster in both for one in cluster["pods"]]
        self.plugins = rng.choice(PLUGINS)
        self.columns = prepared(self.plugins, length=2)
        first, second = (owned(rng, cluster["pod"]) for cluster in both)
        # Two that are alike but for what they ask for, and one that may differ in all.
        more = {**first, "spec": {**first["spec"], "containers": [BUSY]}}
        features = self.columns.features.values()
        self.waiting = [pod_class(pod(one), features) for one in (first, more, second)]
        shared = SharedScores(self.columns, self.plugins)
        self.kept = [ClassScores(one, self.columns, self.plugins, shared) for one in self.waiting]
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
            assert best == fresh.best_of_sample(np.flatnonzero(life.columns.is_node), 1)
            if best is not None:
                assert life.columns.name(best) in life.there
                assert kept.totals(rows).max() == kept.totals(rows)[rows.tolist().index(best)]
                assert kept.rejections(best) == []


def test_a_named_node_that_is_gone_leaves_its_row_to_another() -> None:
    columns = prepared(PLUGINS[0])
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


def test_a_class_takes_less_where_it_shares() -> None:
    columns = prepared(PLUGINS[0])
    columns.set(read_node(b'{"metadata": {"name": "n1"}}'))

    def sizes(shared: SharedScores, *tolerations: str) -> list[int]:
        found = [
            ClassScores(
                pod_class(pod({"spec": {"tolerations": [{"key": key, "operator": "Exists"}]}})),
                columns,
                PLUGINS[0],
                shared,
            )
            for key in tolerations
        ]
        for one in found:
            one.feasible()
        return [one.size for one in found]

    alone = sizes(SharedScores(columns, PLUGINS[0]), "a", "b")
    together = sizes(SharedScores(columns, PLUGINS[0]), "a", "a")
    assert alone[0] == alone[1] > together[0] == together[1] > alone[0] / 2


def test_what_a_class_counts_is_part_of_its_size() -> None:
    columns = prepared(PLUGINS[0], length=1024)
    columns.set(read_node(b'{"metadata": {"name": "n1", "labels": {"zone": "a"}}}'))
    meant = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **meant},
        ],
        "affinity": {"podAntiAffinity": {required: [meant]}},
    }
    sizes = []
    for one in ({}, spec):
        scores = ClassScores(pod_class(pod({"spec": one})), columns, PLUGINS[0])
        scores.feasible()
        sizes.append(scores.size)
    counters = 2 * 8 * 1024
    assert sizes[1] - sizes[0] >= counters


class FailingPlugin(Plugin):
    """Rejects no node; all has to be asked again when ``version`` changes, and 1 fails."""

    name: ClassVar[str] = "FailingPlugin"

    def __init__(self) -> None:
        self.version = 0

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            if self.version == 1:
                raise ArithmeticError
            return np.ones(len(rows), np.bool_)

        return can_run

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence:
        return lambda: self.version


class FailingSharedPlugin(FailingPlugin):
    """What it says is shared by all classes."""

    def sign(self, pod: PodClass) -> Hashable:
        return ()


@pytest.mark.parametrize("plugin", [FailingPlugin(), FailingSharedPlugin()])
def test_what_a_plugin_did_not_answer_is_asked_again(plugin: FailingPlugin) -> None:
    columns = ClusterState()
    row = columns.set(read_node(b'{"metadata": {"name": "n1"}}'))
    scores = ClassScores(pod_class(pod({})), columns, [EnabledPlugin(plugin, True, 0)])
    assert scores.feasible().tolist() == [row]
    plugin.version = 1
    with pytest.raises(ArithmeticError):
        scores.feasible()
    plugin.version = 0
    assert scores.feasible().tolist() == [row]
