"""CustomPriority moves pods from dear nodes to cheaper ones, one by one or a node at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.plugins.custom_priority import CustomPriority, CustomPriorityArgs

from tests.descheduler.clusters import FILLING, Document, TestCluster, node, pod


def level(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": {"price": name}}} | more


def plugin(*order: dict[str, Any], **args: Any) -> CustomPriority:
    given = {"evictionOrder": order or (level("dear"), level("cheap"))} | args
    return CustomPriority(msgspec.convert(given, CustomPriorityArgs))


def moves(plan: RoundPlan) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in plan.moves]


@pytest.fixture
def cluster() -> TestCluster:
    """A dear node with pods of 1, 2 and 3 CPUs; a cheap one with 4 left, which fills first."""
    found = TestCluster(FILLING)
    for name in ("dear", "cheap"):
        found.put(node(name, cpu="10", labels={"price": name}))
    found.put(pod("x", "cheap", cpu="6"))
    found.put(*(pod(f"p{cpu}", "dear", cpu=str(cpu)) for cpu in (3, 1, 2)))
    return found


def roomy() -> list[Document]:
    """The cheap node with 6 CPUs left, and filled more than the dear one."""
    return [node("cheap", cpu="13", labels={"price": "cheap"}), pod("x", "cheap", cpu="7")]


def test_small_pods_go_to_cheaper_nodes_first(cluster: TestCluster) -> None:
    plan = cluster.round(plugin())
    assert moves(plan) == [("p1", "cheap"), ("p2", "cheap")]
    assert plan.moves[0].reason == (
        "evicting from dear priority resource to lower priority resource"
    )
    assert [one.pod.name for one in plan.refusals] == ["p3"]


def test_nothing_goes_to_dearer_nodes(cluster: TestCluster) -> None:
    assert moves(cluster.round(plugin(level("other"), level("dear")))) == []
    assert moves(cluster.round(plugin(paused=True))) == []
    assert (
        cluster.round(plugin(dryRun=True))
        .notes["CustomPriority/dryRun"][0]
        .startswith("default/p1 from dear to cheap: ")
    )


def test_a_node_is_drained_whole_or_not_at_all(cluster: TestCluster) -> None:
    plan = cluster.round(plugin(mode="DrainNode"))
    assert moves(plan) == []
    assert plan.notes["test/CustomPriority/dear"] == "stays, as default/p3 does"
    cluster.put(*roomy())
    plan = cluster.round(plugin(mode="DrainNode"))
    assert moves(plan) == [("p1", "cheap"), ("p2", "cheap"), ("p3", "cheap")]
    assert plan.moves[0].reason == "drain node dear (sourcePriority=dear)"


def test_pods_that_may_not_move_keep_a_node_from_being_drained(cluster: TestCluster) -> None:
    """Koordinator drains the others."""
    cluster.put(*roomy(), pod("p1", "dear", spec={"priority": 2_000_000_000}))
    assert moves(cluster.round(plugin(mode="DrainNode"))) == []
    daemon = [{"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]
    cluster.put(pod("p1", "dear", ownerReferences=daemon))
    assert moves(cluster.round(plugin(mode="DrainNode"))) == [("p2", "cheap"), ("p3", "cheap")]


def test_thresholds_keep_and_reject_pods(cluster: TestCluster) -> None:
    keeping = level("dear", keepThreshold={"cpu": 61})
    assert moves(cluster.round(plugin(keeping, level("cheap")))) == []
    keeping["keepThreshold"] = {"cpu": 60}
    assert moves(cluster.round(plugin(keeping, level("cheap")))) != []
    for per_cent, number in ((59, 0), (60, 1), (70, 2)):
        rejecting = level("cheap", rejectThreshold={"cpu": per_cent})
        assert len(cluster.round(plugin(level("dear"), rejecting)).moves) == number


def test_after_some_pods_that_do_not_fit_bigger_ones_are_not_tried(cluster: TestCluster) -> None:
    cluster.put(node("dear", cpu="99", labels={"price": "dear"}))
    cluster.put(*(pod(f"big{number}", "dear", cpu="5") for number in range(9)))
    plan = cluster.round(plugin())
    assert moves(plan) == [("p1", "cheap"), ("p2", "cheap")]
    assert len(plan.refusals) == 5


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"evictionOrder": [level("a")]},
         "evictionOrder is missing; expected two levels or more, dear ones first"),
        ({"evictionOrder": [level("a"), level("a")]},
         'evictionOrder[1].name is "a"; expected another name'),
        ({"evictionOrder": [level("a"), {"name": "b"}]},
         "evictionOrder[1].nodeSelector is missing; expected a label selector"),
        ({"evictionOrder": [level("a"), level("b")], "autoCordon": True},
         "autoCordon is true; expected false: a DrainNode cordons and undoes it"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], problem: str) -> None:
    args = msgspec.convert(given, CustomPriorityArgs)
    assert list(args.problems("args")) == [f"args.{problem}"]
