"""A diagnosis counts what the plugins' filters reject, and names what comes nearest to fitting."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.views.pod import ResourceRequirements
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.diagnosis import Diagnosis, diagnose
from koord_scheduler.framework.fit_error import NO_NODES, fit_error_message
from koord_scheduler.framework.nearest_miss import Lack, NearMiss
from koord_scheduler.framework.pre_filter import merge_pre_filter
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node, NodeSpec, NodeStatus, Taint
from koord_scheduler.objects.pod import PodInfo, SchedulingContainer, SchedulingSpec
from koord_scheduler.plugin import Filter, Plugin, PreFilterResult
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.plugins.taint_toleration import TaintToleration
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.conformance.test_scheduler_reasons import class_scores
from tests.support.clusters import random_cluster

NEVER = PreFilterResult("never")
LATER = PreFilterResult("later", resolvable=True)
MUCH_LATER = PreFilterResult("much later", resolvable=True)


@given(st.integers(0, 1 << 32))
def test_a_row_has_reasons_exactly_where_a_filter_rejects_it(seed: int) -> None:
    scores = class_scores(random_cluster(Random(seed)))
    rows = np.flatnonzero(scores.nodes.is_node)
    rejections = {int(row): scores.rejections(int(row)) for row in rows}
    for at, row in enumerate(rows):
        with_reasons = [
            one.plugin for one in scores.reasons(rows) if any(why.rows[at] for why in one.reasons)
        ]
        assert sorted(with_reasons) == sorted(rejections[int(row)])
    diagnosis = diagnose(scores)
    names = [name for one in rejections.values() for name in one]
    alone = Counter(one[0] for one in rejections.values() if len(one) == 1)
    assert {one.plugin: one.nodes for one in diagnosis.plugins} == Counter(names)
    assert {one.plugin: one.alone for one in diagnosis.plugins if one.alone} == alone
    assert diagnosis.feasible == len(scores.feasible())


def node(name: str, cpu: str = "4", memory: str = "8Gi", *, taint: bool = False) -> Node:
    taints = [Taint("gpu", "", "NoSchedule")] if taint else []
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return Node(AnnotatedMeta(name), NodeSpec(taints), NodeStatus(amounts))


def diagnosis_of(nodes: list[Node], cpu: str, memory: str, *plugins: Plugin) -> Diagnosis:
    columns = ClusterState()
    for one in nodes:
        columns.set(one)
    requests = ResourceRequirements({"cpu": cpu, "memory": memory, "example.com/gpu": "0"})
    spec = SchedulingSpec(containers=[SchedulingContainer(resources=requests)])
    enabled = [EnabledPlugin(one) for one in plugins or (TaintToleration(), NodeResourcesFit())]
    return diagnose(ClassScores(pod_class(PodInfo(spec=spec)), columns, enabled))


def test_the_nearest_nodes_lack_the_least_of_what_they_have() -> None:
    nodes = [
        node("tainted", cpu="49", taint=True),
        node("half", cpu="25", memory="64Gi"),
        node("almost", cpu="49500m", memory="64Gi"),
        node("none", cpu="0", memory="64Gi"),
        node("both", cpu="40", memory="16Gi"),
        node("some", cpu="40", memory="64Gi"),
    ]
    assert diagnosis_of(nodes, "50", "20000000001").nearest == (
        NearMiss("almost", (Lack("cpu", "500m"),), ()),
        NearMiss("some", (Lack("cpu", "10"),), ()),
        NearMiss("both", (Lack("cpu", "10"), Lack("memory", "2820130817")), ()),
    )
    without_cpu = [node("none", cpu="0", memory="64Gi"), node("some", cpu="1", memory="64Gi")]
    assert [one.node for one in diagnosis_of(without_cpu, "50", "1Gi").nearest] == ["some", "none"]


def test_where_resources_are_not_all_the_node_with_the_fewest_plugins_against_it_is_nearest() -> (
    None
):
    nodes = [
        node("both", cpu="1", taint=True),
        node("tainted", taint=True),
        node("other", taint=True),
    ]
    assert diagnosis_of(nodes, "2", "1Gi").nearest == (
        NearMiss("tainted", (), ("TaintToleration",)),
    )
    nodes = [node("far", cpu="1", taint=True), node("near", cpu="1500m", taint=True)]
    assert diagnosis_of(nodes, "2", "1Gi").nearest == (
        NearMiss("near", (Lack("cpu", "500m"),), ("TaintToleration",)),
    )
    assert diagnosis_of([node("free")], "2", "1Gi").nearest == ()


class Quota(Plugin):
    """A plugin that lets a class run nowhere for now, and knows so before it looks at nodes."""

    name: ClassVar[str] = "Quota"
    resolvable: ClassVar[bool] = False

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        return LATER

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        return lambda rows: np.zeros(len(rows), np.bool_)


def test_a_rejection_before_nodes_are_looked_at_says_where_preemption_may_help() -> None:
    nodes = [node("n1"), node("n2", cpu="1"), node("n3", taint=True)]
    diagnosis = diagnosis_of(nodes, "2", "1Gi", TaintToleration(), Quota())
    assert (diagnosis.pre_filter, diagnosis.reasons) == ("later", {})
    assert len(diagnosis.resolvable) == len(nodes)
    assert diagnosis.feasible == 0


@pytest.mark.parametrize(
    ("results", "merged"),
    [
        ([], PreFilterResult()),
        ([LATER, MUCH_LATER, PreFilterResult()], MUCH_LATER),
        ([LATER, NEVER, PreFilterResult("too late")], NEVER),
        ([PreFilterResult(nodes=frozenset("ab")), LATER], LATER),
        (
            [PreFilterResult(nodes=frozenset("ab")), PreFilterResult(nodes=frozenset("bc"))],
            PreFilterResult(nodes=frozenset("b")),
        ),
        (
            [PreFilterResult(nodes=frozenset("a")), PreFilterResult(nodes=frozenset("b")), NEVER],
            PreFilterResult("node(s) didn't satisfy plugin(s) [0 1] simultaneously"),
        ),
        ([PreFilterResult(nodes=frozenset())], PreFilterResult("node(s) didn't satisfy plugin 0")),
    ],
)
def test_what_plugins_say_before_nodes_are_looked_at_becomes_one_result(
    results: list[PreFilterResult], merged: PreFilterResult
) -> None:
    named = [(str(place), one) for place, one in enumerate(results)]
    assert merge_pre_filter(named) == merged


def test_messages_say_what_the_diagnosis_has() -> None:
    nodes = [node("n1"), node("n2", cpu="1500m"), node("n3", taint=True)]
    diagnosis = diagnosis_of(nodes, "2", "1Gi")
    assert fit_error_message(diagnosis, "Then.") == (
        "1/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). Then."
    )
    assert fit_error_message(diagnosis_of([], "2", "1Gi"), "Then.") == NO_NODES
