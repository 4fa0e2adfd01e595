"""Of one row every plugin says in plain numbers what it says of many rows at once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.class_plugin import class_plugin
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.single_row import SingleRow
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.support.assembled_scheduler import AssembledCluster
from tests.support.clusters import random_cluster
from tests.support.examples import fewer
from tests.support.prepared import prepared
from tests.support.scheduler_profile import default_plugins

Document = dict[str, Any]
STEPS = 15
NAMES = ("n1", "n2", "n3", "n4")


def check(plugins: Iterable[EnabledPlugin], pod: PodClass, nodes: ClusterState) -> None:
    for plugin in plugins:
        check_plugin(plugin, pod, nodes, np.flatnonzero(nodes.is_node))


def check_plugin(enabled: EnabledPlugin, pod: PodClass, nodes: ClusterState, rows: Any) -> None:
    answer = class_plugin(enabled, pod, nodes)
    single = SingleRow(pod, nodes, [answer])
    found = [single.ask(row, 0.0) for row in rows.tolist()]
    fits = answer.filter(rows) if answer.filter else np.ones(len(rows), np.bool_)
    assert [one is not None for one in found] == fits.tolist(), answer.plugin.name
    scores = answer.score(rows) if answer.score else np.zeros(len(rows))
    if answer.plugin.normalizes:
        assert [[score(row) for row in rows] for score in single.relative] == (
            [scores.tolist()] if answer.score else []
        ), answer.plugin.name
    else:
        where = (score if fit else None for score, fit in zip(scores, fits, strict=True))
        assert found == [one and answer.weight * one for one in where], answer.plugin.name


def without_some(rng: Random, node: Document) -> Document:
    """A node that may have no CPU, or no memory, as one that has just come."""
    has = node["status"].get("allocatable", {})
    left = {name: one for name, one in has.items() if name not in rng.choice(LACKING)}
    return {**node, "status": {**node["status"], "allocatable": left}}


LACKING = ((), (), ("cpu",), ("memory",), ("cpu", "memory"))


@given(st.integers(0, 1 << 32))
def test_plugins_of_kubernetes(seed: int) -> None:
    rng = Random(seed)
    cluster = random_cluster(rng)
    plugins = default_plugins(cluster.get("args"))
    nodes = prepared(plugins)
    for document in cluster["nodes"]:
        nodes.set(read_node(json.dumps(without_some(rng, document)).encode()))
    pods = [read_pod(json.dumps(document).encode()) for document in cluster["pods"]]
    for pod in pods:
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    waiting = read_pod(json.dumps(cluster["pod"]).encode())
    for pod in (waiting, *pods[:3]):
        check(plugins, pod_class(pod, nodes.features.values()), nodes)


@fewer(3)
@given(st.integers(0, 1 << 32))
def test_plugins_of_koordinator(seed: int) -> None:
    cluster = AssembledCluster(Random(seed))
    for name in NAMES:
        cluster.node(name)
        cluster.put("Node", name, without_some(cluster.rng, cluster.of("Node")[name]))
    for _ in range(STEPS):
        cluster.change()
        for pod in list(cluster.scheduler.queue.pods.values()):
            profile = cluster.scheduler.profiles[pod.waiting.scheduler_name]
            check(profile.plugins, pod.waiting.pod_class, cluster.scheduler.nodes)
        while cluster.decide() is not None:
            pass
