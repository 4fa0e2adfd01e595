"""Upstream's plugins: pods leave nodes that are asked for much, or those asked for little."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.plugins.high_node_utilization import (
    HighNodeUtilization,
    HighNodeUtilizationArgs,
)
from koord_descheduler.plugins.low_node_utilization import (
    LowNodeUtilization,
    LowNodeUtilizationArgs,
)

from tests.descheduler.clusters import FILLING, TestCluster, node, node_metric, pod

THRESHOLDS = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}


def low(**more: Any) -> LowNodeUtilization:
    return LowNodeUtilization(msgspec.convert(THRESHOLDS | more, LowNodeUtilizationArgs))


def high(**more: Any) -> HighNodeUtilization:
    given = {"thresholds": {"cpu": 20}} | more
    return HighNodeUtilization(msgspec.convert(given, HighNodeUtilizationArgs))


def moves(plan: RoundPlan) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in plan.moves]


@pytest.fixture
def uneven() -> TestCluster:
    """Node a is asked for 6 of 10 CPUs, node b for none."""
    found = TestCluster()
    found.put(node("a", cpu="10"), node("b", cpu="10"))
    found.put(*(pod(f"p{n}", "a", cpu=cpu, memory="1Gi") for n, cpu in enumerate("312")))
    return found


def test_pods_leave_nodes_that_are_asked_for_much(uneven: TestCluster) -> None:
    plan = uneven.round(low())
    assert moves(plan) == [("p1", "b")]
    assert plan.moves[0].reason == (
        "node is overutilized, node cpu requests(60.00%)>threshold(50.00%)"
    )
    important = {"spec": {"priority": 10}}
    uneven.put(*(pod(f"p{n}", "a", cpu=cpu, **important) for n, cpu in ((1, "1"), (2, "2"))))
    assert moves(uneven.round(low())) == [("p0", "b")]


def test_no_more_leave_a_node_than_its_limit(uneven: TestCluster) -> None:
    uneven.put(*(pod(f"p{n}", "a", cpu="1") for n in range(6)))
    tight = {"targetThresholds": {"cpu": 45}}
    assert len(uneven.round(low(**tight)).moves) == 2
    assert len(uneven.round(low(**tight, evictionLimits={"node": 1})).moves) == 1
    assert moves(uneven.round(low(numberOfNodes=1))) == []
    assert moves(uneven.round(low(evictableNamespaces={"exclude": ["default"]}))) == []


def test_usage_of_node_metrics_counts_in_place_of_requests(uneven: TestCluster) -> None:
    by_usage = low(metricsUtilization={"source": "KubernetesMetrics"})
    usages = {f"default/p{n}": {"cpu": "2"} for n in range(3)}
    uneven.put(node_metric("a", {"cpu": "1"}, usages), node_metric("b", {}, {}))
    plan = uneven.round(by_usage)
    assert len(plan.moves) == 1
    assert "node cpu usage(70.00%)" in plan.moves[0].reason


def test_deviation_is_from_the_mean(uneven: TestCluster) -> None:
    around = {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 20}}
    plan = uneven.round(low(useDeviationThresholds=True, **around))
    assert plan.moves[0].reason.endswith("(60.00%)>threshold(50.00%)")


def test_a_node_that_is_asked_for_little_is_emptied() -> None:
    cluster = TestCluster(FILLING)
    cluster.put(node("a", cpu="10"), node("b", cpu="10"), node("c", cpu="10", unschedulable=True))
    cluster.put(*(pod(f"p{n}", "a", cpu="500m") for n in range(2)), pod("q", "b", cpu="4"))
    plan = cluster.round(high())
    assert moves(plan) == [("p0", "b"), ("p1", "b")]
    assert plan.moves[0].reason == (
        "node is underutilized, node cpu requests(10.00%)<=threshold(20.00%)"
    )
    assert plan.notes["test/HighNodeUtilization/nodes"] == {
        "nodes": 3,
        "underused": 2,
        "targets": 1,
    }
    plan = cluster.round(high(numberOfNodes=2))
    assert moves(plan) == []
    assert "nothingToDo" in plan.notes["test/HighNodeUtilization/nodes"]
    assert moves(cluster.round(high(evictableNamespaces={"exclude": ["default"]}))) == []
    only = high(
        thresholds={"example.com/x": 20, "cpu": 20}, evictionModes=["OnlyThresholdingResources"]
    )
    assert len(cluster.round(only).moves) == 2
    cluster.put(*(pod(f"p{n}", "a", cpu="0") for n in range(2)))
    assert {one.rule for one in cluster.round(only).refusals} == {"OnlyThresholdingResources"}


def test_a_scheduler_that_spreads_keeps_pods_where_they_are(uneven: TestCluster) -> None:
    uneven.put(pod("q", "b", cpu="1"))
    plan = uneven.round(high())
    assert (moves(plan), [one.rule for one in plan.refusals]) == ([], ["Return"])


PROMETHEUS = {"source": "Prometheus", "prometheus": {"query": "q"}}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"thresholds": {"cpu": 60}},
         "thresholds.cpu is 60.0; expected targetThresholds.cpu (50) or less"),
        ({"thresholds": {}}, "thresholds is missing; expected a resource with its per cent"),
        ({"targetThresholds": {"cpu": 101}}, "targetThresholds.cpu is 101.0; expected 0 to 100"),
        ({"metricsUtilization": PROMETHEUS},
         'metricsUtilization.source is "Prometheus"; expected KubernetesMetrics'),
        ({"evictableNamespaces": {"include": ["a"]}},
         'evictableNamespaces.include is "a"; expected exclude, the only one there is'),
    ],
)  # fmt: skip
def test_what_upstream_refuses_is_refused(given: dict[str, Any], problem: str) -> None:
    made = msgspec.convert(THRESHOLDS | given, LowNodeUtilizationArgs)
    assert next(iter(made.problems("args"))).startswith(f"args.{problem}")
