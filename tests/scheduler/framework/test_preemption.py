"""Preemption by limits is what asking all filters again and again gives."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.framework.preemption import Candidates, find_candidates
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugin import AcrossNodes, Filter, Plugin
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.plugins.pod_topology_spread import PodTopologySpread
from koord_scheduler.state.arrays import Amounts
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

from tests.support.clusters import random_preemption
from tests.support.full_cluster import FullCluster
from tests.support.scheduler_profile import default_plugins


class WithoutLimits(Plugin):
    """A plugin that can only be asked what it filters now."""

    name = "WithoutLimits"

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        return self._plugin.filter(pod, nodes)

    def across(self, pod: PodClass, nodes: ClusterState) -> AcrossNodes | None:
        return self._plugin.across(pod, nodes)


def enabled(chosen: list[Plugin]) -> list[EnabledPlugin]:
    return [EnabledPlugin(one, filters=True, weight=0) for one in chosen]


def find(cluster: FullCluster) -> Candidates:
    return find_candidates(
        cluster.scores,
        cluster.pod.priority,
        cluster.nodes,
        cluster.placed,
        cluster.budgets,
        cluster.nominated,
    )


def state(cluster: FullCluster) -> list[Any]:
    """What pods that leave and come back change, and have to leave as it was."""
    nodes = cluster.nodes
    counted: list[Amounts] = [nodes.resources.requested, nodes.resources.scored]
    terms = {held: nodes.terms.counter(held).rows.tolist() for held in nodes.terms}
    return [*(one.tolist() for one in counted), terms, cluster.scores.feasible().tolist()]


@given(st.integers(0, 1 << 32))
def test_limits_say_what_filters_say(seed: int) -> None:
    rng = Random(seed)
    given_cluster = random_preemption(rng)
    chosen = rng.sample([one.plugin for one in default_plugins()], rng.choice([1, 2, 10, 10, 10]))
    by_limits = FullCluster(given_cluster, enabled(chosen))
    opaque = rng.sample(chosen, rng.randint(1, len(chosen)))
    some = [WithoutLimits(one) if one in opaque else one for one in chosen]
    by_filters = FullCluster(given_cluster, enabled(some))
    before = state(by_filters)
    there, here = find(by_filters), find(by_limits)
    assert list(here) == list(there)
    assert here.best() == there.best()
    assert state(by_filters) == before


def importance(preemption: Preemption) -> tuple[float, ...]:
    """Kubernetes' criteria for one candidate: less is better."""
    priorities = [pod.priority for pod in preemption.victims]
    first = [pod.started for pod in preemption.victims if pod.priority == max(priorities)]
    started = min(np.inf if one is None else one for one in first)
    total = sum(one + (1 << 31) for one in priorities)
    return preemption.pdb_violations, max(priorities), total, len(priorities), -started


@given(st.integers(0, 1 << 32))
def test_the_best_is_the_first_by_the_criteria(seed: int) -> None:
    cluster = FullCluster(random_preemption(Random(seed)), default_plugins())
    candidates, nodes = find(cluster), cluster.nodes
    best = candidates.best()
    if best is None:
        assert list(candidates) == []
        return
    ties = {nodes.name(row): float(tie) for row, tie in enumerate(nodes.tie_break)}
    assert best == min(candidates, key=lambda one: (importance(one), -ties[one.node]))


def node(name: str, zone: str, taints: list[Any] | None = None) -> dict[str, Any]:
    labels = {"zone": zone, "kubernetes.io/hostname": name}
    allocatable = {"cpu": "2", "memory": "1Gi", "pods": "10"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints or []},
        "status": {"allocatable": allocatable},
    }


def pod(name: str, app: str, node_name: str = "", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {
        "metadata": metadata,
        "spec": {"containers": [container], "nodeName": node_name, **spec},
        "status": {},
    }


def spread(**constraint: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    always = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return [{**always, **constraint}]


def candidates_of(pods: list[Any], nodes: list[Any], waiting: Any, nominated: Any) -> list[str]:
    """The nodes of candidates; the same, whether limits or filters say so."""
    both = [PodTopologySpread(), NodeResourcesFit()]
    found = []
    for chosen in (both, list(map(WithoutLimits, both))):
        document = {"namespaces": [], "nodes": nodes, "pods": pods, "pod": waiting}
        cluster = FullCluster({**document, "nominated": nominated, "budgets": []}, enabled(chosen))
        found.append([one.node for one in find(cluster)])
    assert found[0] == found[1]
    return found[0]


def test_the_emptiest_domain_has_room_for_a_nominated_pod() -> None:
    constraints = spread(topologyKey="kubernetes.io/hostname")
    pods = [pod("a", "db", "n1"), pod("b", "db", "n1")]
    pods += [pod(name, "web", "n2", priority=1000) for name in "cd"]
    waiting = pod("w", "web", priority=10, topologySpreadConstraints=constraints)
    nominated = pod("n", "web", priority=10)
    nominated["status"]["nominatedNodeName"] = "n1"
    nodes = [node("n1", "z1"), node("n2", "z2")]
    assert candidates_of(pods, nodes, waiting, [nominated]) == ["n1"]


def test_pods_on_nodes_that_do_not_count_make_no_room_in_a_domain() -> None:
    constraints = spread(topologyKey="zone", nodeTaintsPolicy="Honor")
    nodes = [node("n1", "z1", [{"key": "a", "effect": "NoSchedule"}]), node("n2", "z1")]
    pods = [pod(name, "web", "n1") for name in "abc"]
    pods += [pod(name, "web", "n2", priority=1000) for name in "de"]
    waiting = pod("w", "web", priority=10, topologySpreadConstraints=constraints)
    assert candidates_of(pods, [*nodes, node("n3", "z2")], waiting, []) == []
