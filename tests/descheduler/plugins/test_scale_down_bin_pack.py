"""ScaleDownBinPack ranks pods so that nodes empty, and keeps the deletion costs of others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_descheduler.objects.eviction_order import ANNOTATION_DELETION_COST as COST
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.plugins.scale_down_bin_pack import (
    ANNOTATION_OWN_COST,
    ScaleDownBinPack,
    ScaleDownBinPackArgs,
)

from tests.descheduler.clusters import FILLING, TestCluster, node, pod

APP = [{"selector": {"matchLabels": {"app": "app"}}}]


def plugin(**args: Any) -> ScaleDownBinPack:
    return ScaleDownBinPack(msgspec.convert({"podSelectors": APP} | args, ScaleDownBinPackArgs))


def costs(plan: RoundPlan) -> dict[str, str | None]:
    assert all(len(set(one.values.values())) == 1 for one in plan.annotations)
    return {one.pod.name: one.values[COST] for one in plan.annotations}


@pytest.fixture
def cluster() -> TestCluster:
    """Node b has less of other pods than node a, for each of the application's."""
    found = TestCluster(FILLING)
    found.put(node("a", cpu="10"), node("b", cpu="10"))
    found.put(pod("a1", "a", cpu="2"), pod("other", "a", cpu="4", owner="else"))
    found.put(pod("b1", "b", cpu="1"), pod("b2", "b", cpu="2"))
    return found


def test_nodes_with_little_else_empty_first_and_big_pods_before_small_ones(
    cluster: TestCluster,
) -> None:
    cluster.put(node("c", cpu="10"), pod("else", "c", cpu="1", owner="else"))
    cluster.put(pod("c1", "c", cpu="1"), pod("ended", "c", status={"phase": "Failed"}))
    plan = cluster.round(plugin())
    assert plan.moves == ()
    assert costs(plan) == {"b2": "0", "b1": "1", "c1": "2", "a1": "3"}


def test_pods_that_may_not_move_are_deleted_last(cluster: TestCluster) -> None:
    cluster.put(pod("b1", "b", cpu="1", spec={"priority": 2_000_000_000}))
    assert costs(cluster.round(plugin()))["b1"] == "2147483647"


def test_costs_of_others_are_kept_and_own_ones_are_replaced_and_removed(
    cluster: TestCluster,
) -> None:
    own = {COST: "7", ANNOTATION_OWN_COST: "7"}
    cluster.put(
        pod("b2", "b", cpu="2", annotations={COST: "5"}),
        pod("b1", "b", cpu="1", annotations=own),
        pod("a1", "a", cpu="2", annotations={COST: "2", ANNOTATION_OWN_COST: "2"}),
        pod("other", "a", cpu="4", owner="else", annotations=own),
    )
    assert costs(cluster.round(plugin())) == {"b1": "1", "other": None}
    assert costs(cluster.round(plugin(dryRun=True))) == {}


def test_pods_of_excluded_namespaces_are_not_the_plugins(cluster: TestCluster) -> None:
    assert costs(cluster.round(plugin(evictableNamespaces={"exclude": ["default"]}))) == {}


def test_the_first_pods_move_to_nodes_that_are_fuller_then(cluster: TestCluster) -> None:
    direct = {"strategy": "EvictDirectly"}
    plan = cluster.round(plugin(**direct, maxPodsToEvict=1))
    assert [(move.pod.name, move.target, move.reason) for move in plan.moves] == [
        ("b2", "a", "scale-down binpack")
    ]
    plan = cluster.round(plugin(**direct, maxPodsToEvict=9))
    assert [move.pod.name for move in plan.moves] == ["b2", "b1"]
    assert {one.rule for one in plan.refusals} == {"Target"}


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({}, []),
        ({"strategy": "EvictDirectly"},
         ["args.maxPodsToEvict is missing; expected 1 or more, with EvictDirectly"]),
        ({"resourceWeights": {"cpu": 0}},
         ["args.resourceWeights.cpu is 0.0; expected more than 0"]),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], problems: list[str]) -> None:
    assert list(msgspec.convert(given, ScaleDownBinPackArgs).problems("args")) == problems
