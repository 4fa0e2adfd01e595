"""LowNodeLoad moves pods from nodes that use too much, as few as will do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_descheduler.planner.budgets import MoveLimit, of_node
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.plugins.low_node_load.args import LowNodeLoadArgs
from koord_descheduler.plugins.low_node_load.plugin import LowNodeLoad
from koord_model.times import rfc3339
from koord_scheduler.config.scheduler_config import read_scheduler_config

from tests.descheduler.clusters import NOW, Document, TestCluster, node, node_metric, pod
from tests.descheduler.framework.test_round import GANG_PLUGINS
from tests.support.gangs import gang_annotations

AT_ONCE = {"consecutiveAbnormalities": 1}


def plugin(**args: Any) -> LowNodeLoad:
    defaults: dict[str, Any] = {
        "lowThresholds": {"cpu": 45, "memory": 55},
        "highThresholds": {"cpu": 75, "memory": 80},
        "anomalyCondition": AT_ONCE,
    }
    made = msgspec.convert(defaults | args, LowNodeLoadArgs)
    assert list(made.problems("args")) == []
    return LowNodeLoad(made)


def loaded(name: str, system: str = "0", cpus: dict[str, str] | None = None, **more: Any) -> Any:
    """A node of 10 CPUs and its report: what the system and each of its pods use."""
    of_pod: dict[str, Any] = more.pop("pod", {})
    usages = {
        f"default/{key}": {"cpu": cpu, "memory": "100Mi"} for key, cpu in (cpus or {}).items()
    }
    return (
        node(name, cpu="10", **more),
        *(pod(key, name, cpu="500m", owner=key, **of_pod) for key in cpus or {}),
        node_metric(name, {"cpu": system}, usages),
    )


def moves(plan: RoundPlan) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in plan.moves]


def rules(plan: RoundPlan) -> dict[str, str]:
    return {refusal.pod.name: refusal.rule for refusal in plan.refusals}


@pytest.fixture
def hot() -> TestCluster:
    """Node a uses 8.3 of 10 CPUs, node b none."""
    found = TestCluster()
    found.put(
        *loaded("a", "1100m", {"p1": "3", "p2": "2500m", "p3": "1", "p4": "700m"}), *loaded("b")
    )
    return found


def test_the_smallest_pod_that_alone_suffices_moves(hot: TestCluster) -> None:
    plan = hot.round(plugin())
    assert moves(plan) == [("p3", "b")]
    move = plan.moves[0]
    assert move.reason == "node is overutilized, node cpu usage(83.00%)>threshold(75.00%)"
    assert move.arithmetic["source"]["cpu"] == {"before": 83.0, "after": 73.0, "threshold": 75.0}
    assert move.arithmetic["target"]["cpu"] == {"before": 0.0, "after": 10.0, "threshold": 75.0}
    assert plan.notes["test/LowNodeLoad/__default_node_pool__"] == {
        "nodes": 2,
        "underused": 1,
        "overused": {"node": 1},
        "anomalies": {"node": 1},
    }


def test_what_the_next_pod_has_to_be_is_reckoned_anew() -> None:
    cluster = TestCluster()
    cluster.put(*loaded("a", "1", {"p1": "3", "p2": "2900m", "p3": "2", "p4": "1"}), *loaded("b"))
    plan = cluster.round(plugin(highThresholds={"cpu": 65, "memory": 80}))
    assert moves(plan) == [("p1", "b"), ("p4", "b")]
    assert plan.moves[1].reason.endswith("node cpu usage(69.00%)>threshold(65.00%)")


def test_less_important_pods_move_first(hot: TestCluster) -> None:
    hot.put(pod("p2", "a", labels={"koordinator.sh/priority-class": "koord-batch"}))
    assert moves(hot.round(plugin())) == [("p2", "b")]
    costly = {"controller.kubernetes.io/pod-deletion-cost": "5"}
    hot.put(pod("p2", "a"), pod("p3", "a", annotations=costly))
    assert moves(hot.round(plugin())) == [("p2", "b")]


def test_a_target_stays_below_its_high_thresholds(hot: TestCluster) -> None:
    hot.put(*loaded("b", "4", {"q": "500m"}))
    plan = hot.round(
        plugin(highThresholds={"cpu": 50, "memory": 80}, lowThresholds={"cpu": 45, "memory": 55})
    )
    assert (moves(plan), rules(plan)) == ([], dict.fromkeys(("p1", "p2", "p3", "p4"), "Target"))


def test_moves_that_do_not_happen_spend_nothing_of_the_targets(hot: TestCluster) -> None:
    """Koordinator counts every candidate on the first target that it fits."""
    hot.put(*loaded("b", "3", {}), pod("p3", "a", labels={"tier": "db"}))
    only = [{"selector": {"matchLabels": {"tier": "db"}}}]
    plan = hot.round(plugin(podSelectors=only, highThresholds={"cpu": 42, "memory": 80},
                            lowThresholds={"cpu": 40, "memory": 55}))  # fmt: skip
    assert moves(plan) == [("p3", "b")]
    assert rules(plan) == dict.fromkeys(("p1", "p2", "p4"), "PodSelectors")


def test_a_move_that_makes_loads_less_even_is_refused() -> None:
    cluster = TestCluster()
    for name in "cdefg":
        cluster.put(*loaded(name, "7400m"))
    report = node_metric("b", {"cpu": "500m", "memory": "8500Mi"}, {})
    cluster.put(*loaded("a", "1", {"p": "6600m"}), node("b", cpu="10"), report)
    assert rules(cluster.round(plugin())) == {"p": "Target"}


def test_an_exhausted_limit_of_one_node_does_not_stop_the_others(hot: TestCluster) -> None:
    hot.put(*loaded("c", "5", {"q1": "1500m", "q2": "1500m", "q3": "0"}))
    one_each = [MoveLimit("maxNoOfPodsToEvictPerNode", 1, of_node)]
    plan = hot.round(plugin(highThresholds={"cpu": 60, "memory": 80}), limits=one_each)
    assert (moves(plan), rules(plan)) == ([("p2", "b"), ("q1", "b")], {"q2": "Budget"})


def test_the_number_of_pods_may_have_a_threshold(hot: TestCluster) -> None:
    for name in ("a", "b"):
        hot.put(node(name, cpu="100", allocatable={"pods": "10"}))
    hot.put(pod("ended", "a", status={"phase": "Succeeded"}))
    few = {"lowThresholds": {"pods": 10}, "highThresholds": {"pods": 30}}
    plan = hot.round(plugin(**few))
    assert len(plan.moves) == 1
    assert plan.moves[0].reason == (
        "node is overutilized, node pods usage(40.00%)>threshold(30.00%)"
    )


def test_a_gang_moves_only_if_all_of_it_makes_loads_more_even() -> None:
    cluster = TestCluster(read_scheduler_config(GANG_PLUGINS))
    cluster.put(*loaded("a", "1", {"p1": "4", "p2": "3900m"}), *loaded("b"))
    gang = gang_annotations("g", 2)
    cluster.put(*(pod(name, "a", cpu="500m", annotations=gang) for name in ("p1", "p2")))
    cluster.put(pod("stays", "a", cpu="5", spec={"priority": 2_000_000_000}))
    plan = cluster.round(plugin())
    assert moves(plan) == []
    assert {one.why for one in plan.refusals if one.rule == "Target"} == {
        "with all of its gang, loads get worse"
    }
    cluster.put(*loaded("c"))
    plan = cluster.round(plugin())
    assert sorted(target for _, target in moves(plan)) == ["b", "c"]


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        ({"evictableNamespaces": {"exclude": ["default"]}}, "EvictableNamespaces"),
        ({"evictableNamespaces": {"include": ["kube-public"]}}, "EvictableNamespaces"),
        ({"podSelectors": [{"selector": {"matchLabels": {"a": "b"}}}]}, "PodSelectors"),
    ],
)
def test_only_pods_that_the_arguments_name_move(
    hot: TestCluster, args: dict[str, Any], rule: str
) -> None:
    plan = hot.round(plugin(**args))
    assert (moves(plan), set(rules(plan).values())) == ([], {rule})


def test_a_pod_without_usage_moves_only_without_node_fit(hot: TestCluster) -> None:
    hot.put(node_metric("a", {"cpu": "8300m"}, {}))
    assert set(rules(hot.round(plugin())).values()) == {"NoUsage"}
    assert moves(hot.round(plugin(nodeFit=False))) == []
    scheduled = {"type": "PodScheduled", "status": "True"}
    for key in ("p1", "p2", "p3", "p4"):
        more = {"creationTimestamp": rfc3339(NOW - 5), "status": {"conditions": [scheduled]}}
        hot.put(pod(key, "a", cpu="2", **more))
    hot.put(node_metric("a", {"cpu": "1"}, {}))
    assert moves(hot.round(plugin(nodeFit=False))) == [("p1", "b")]


@pytest.mark.parametrize(
    ("documents", "idle"),
    [
        ([node("b", cpu="10", unschedulable=True)], "0 nodes are underused; numberOfNodes is 0"),
        ([node_metric("b", {}, {}, ago=181)], "0 nodes are underused; numberOfNodes is 0"),
        ([node_metric("a", {}, {}, ago=181)], "no node is overused for long enough"),
        ([node_metric("a", {"cpu": "6"}, {})], "no node is overused for long enough"),
    ],
)
def test_a_round_says_why_nothing_is_to_do(
    hot: TestCluster, documents: list[Document], idle: str
) -> None:
    hot.put(*documents)
    plan = hot.round(plugin())
    assert moves(plan) == []
    assert plan.notes["test/LowNodeLoad/__default_node_pool__"]["nothingToDo"] == idle


def test_more_nodes_than_number_of_nodes_have_to_be_underused(hot: TestCluster) -> None:
    assert moves(hot.round(plugin(numberOfNodes=1))) == []
    assert moves(hot.round(plugin(paused=True))) == []


def test_deviation_mode_says_the_real_threshold(hot: TestCluster) -> None:
    plan = hot.round(
        plugin(
            useDeviationThresholds=True,
            highThresholds={"cpu": 20},
            lowThresholds={"cpu": 20},
        )
    )
    assert plan.moves[0].reason == (
        "node is overutilized, node cpu usage(83.00%)>threshold(61.50%)"
    )


def test_usage_is_compared_with_capacity_before_amplification(hot: TestCluster) -> None:
    amplified = node("a", cpu="20")
    raw = {"node.koordinator.sh/raw-allocatable": '{"cpu": "10"}'}
    amplified["metadata"]["annotations"] = raw
    hot.put(amplified)
    assert moves(hot.round(plugin())) == [("p3", "b")]


# ---- production pods


PROD = {
    "highThresholds": {"cpu": 90, "memory": 90},
    "lowThresholds": {"cpu": 80, "memory": 80},
    "prodHighThresholds": {"cpu": 60, "memory": 80},
    "prodLowThresholds": {"cpu": 30, "memory": 55},
}


def test_production_pods_go_where_production_uses_little(hot: TestCluster) -> None:
    batch = {"koordinator.sh/priority-class": "koord-batch"}
    hot.put(*loaded("b", "1", {"q": "4"}, pod={"labels": batch}))
    plan = hot.round(plugin(**PROD))
    assert moves(plan) == [("p2", "b")]
    assert plan.moves[0].reason == (
        "node is overutilized, prod cpu usage(72.00%)>threshold(60.00%)"
    )


def test_a_production_pod_respects_the_thresholds_of_the_whole_node(hot: TestCluster) -> None:
    batch = {"koordinator.sh/priority-class": "koord-batch"}
    hot.put(*loaded("b", "1", {"q": "6"}, pod={"labels": batch}))
    assert moves(hot.round(plugin(**PROD))) == [("p3", "b"), ("p4", "b")]


def test_production_pods_go_to_no_cordoned_node(hot: TestCluster) -> None:
    hot.put(node("b", cpu="10", unschedulable=True))
    plan = hot.round(plugin(**PROD))
    assert plan.notes["test/LowNodeLoad/__default_node_pool__"]["underused"] == 0


def test_weights_say_which_of_two_resources_a_pod_has_to_fit() -> None:
    cluster = TestCluster()
    cluster.put(*loaded("a"), *loaded("b"), pod("cpu", "a", cpu="1"), pod("memory", "a", cpu="1"))
    usages = {
        "default/cpu": {"cpu": "1", "memory": "100Mi"},
        "default/memory": {"cpu": "100m", "memory": "1Gi"},
    }
    cluster.put(node_metric("a", {"cpu": "7", "memory": "13Gi"}, usages))
    for weights, first in (({"cpu": 9, "memory": 1}, "cpu"), ({"cpu": 1, "memory": 9}, "memory")):
        plan = cluster.round(plugin(resourceWeights=weights))
        assert plan.moves[0].pod.name == first


# ---- anomalies and pools


def test_a_load_has_to_be_high_in_more_rounds_in_a_row(hot: TestCluster) -> None:
    made = plugin(anomalyCondition={"consecutiveAbnormalities": 2})
    assert [len(hot.round(made).moves) for _ in range(3)] == [0, 0, 1]
    again = plugin(anomalyCondition={"consecutiveAbnormalities": 2})
    high = node_metric("a", {"cpu": "8300m"}, {})
    found = []
    for between in (False, False, True, False, False, False):
        hot.put(node_metric("a", {"cpu": "6"}, {}) if between else high)
        note = hot.round(again).notes["test/LowNodeLoad/__default_node_pool__"]
        found.append(note["anomalies"]["node"])
    assert found == [0, 0, 0, 0, 0, 1]


def test_a_trial_does_not_count(hot: TestCluster) -> None:
    made = plugin(anomalyCondition={"consecutiveAbnormalities": 2})
    assert [len(hot.round(made, is_trial=True).moves) for _ in range(4)] == [0, 0, 0, 0]


def test_pools_have_their_own_thresholds_and_hide_their_sources(hot: TestCluster) -> None:
    hot.put(node("a", cpu="10", labels={"pool": "x"}), node("b", cpu="10", labels={"pool": "x"}))
    of_x = {
        "name": "x",
        "nodeSelector": {"matchLabels": {"pool": "x"}},
        "highThresholds": {"cpu": 70, "memory": 80},
    }
    plan = hot.round(plugin(nodePools=[of_x]))
    assert [move.reason[-18:] for move in plan.moves] == [">threshold(75.00%)"]
    plan = hot.round(plugin(highThresholds={"cpu": 90, "memory": 90}, nodePools=[of_x]))
    assert [move.reason[-18:] for move in plan.moves] == [">threshold(70.00%)"]


def test_rounds_are_counted_for_each_pool_by_itself(hot: TestCluster) -> None:
    """In Koordinator a node of two pools is counted twice a round."""
    of_x = {"nodeSelector": {}, "highThresholds": {"cpu": 70, "memory": 80}}
    made = plugin(
        highThresholds={"cpu": 90, "memory": 90},
        nodePools=[of_x],
        anomalyCondition={"consecutiveAbnormalities": 2},
    )
    assert [len(hot.round(made).moves) for _ in range(3)] == [0, 0, 1]


def test_moves_of_a_round_are_seen_by_the_next_pool(hot: TestCluster) -> None:
    everywhere = {"name": "again", "nodeSelector": {}}
    plan = hot.round(plugin(nodePools=[everywhere]))
    assert len(plan.moves) == 1
    assert plan.notes["test/LowNodeLoad/again"]["nodes"] == 1
