"""FragmentationAware moves a pod if the worse of its node and its target gets more even."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.plugins.fragmentation_aware import (
    FragmentationAware,
    FragmentationAwareArgs,
)

from tests.descheduler.clusters import TestCluster, node, pod


def plugin(**args: Any) -> FragmentationAware:
    return FragmentationAware(msgspec.convert(args, FragmentationAwareArgs))


def moves(plan: RoundPlan) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in plan.moves]


@pytest.fixture
def uneven() -> TestCluster:
    """Of node a CPUs are requested, of node b memory."""
    found = TestCluster()
    found.put(node("a", cpu="10", memory="10Gi"), node("b", cpu="10", memory="10Gi"))
    found.put(*(pod(f"c{n}", "a", cpu="3", memory="1Gi", owner=f"c{n}") for n in range(2)))
    found.put(pod("c2", "a", cpu="1", memory="1Gi"), pod("m", "b", cpu="1", memory="6Gi"))
    return found


def test_the_pod_with_the_most_gain_moves(uneven: TestCluster) -> None:
    plan = uneven.round(plugin())
    assert moves(plan) == [("c0", "b")]
    assert plan.moves[0].reason == (
        "fragmentation reduction: stdBefore=0.2000 stdAfter=0.1000 gain=0.1000"
    )
    assert plan.moves[0].arithmetic["target"] == {"before": 0.25, "after": 0.15}


def test_no_pod_makes_its_target_worse_than_its_node_was(uneven: TestCluster) -> None:
    uneven.put(pod("m", "b", cpu="4", memory="0"))
    plan = uneven.round(plugin())
    assert moves(plan) == []
    assert {one.why for one in plan.refusals} == {"every other node would be less even"}


def test_little_unevenness_and_little_gain_move_nothing(uneven: TestCluster) -> None:
    assert moves(uneven.round(plugin(imbalanceThreshold=0.26))) == []
    assert moves(uneven.round(plugin(minImprovementThreshold=0.11))) == []
    assert moves(uneven.round(plugin(paused=True))) == []
    assert (
        moves(uneven.round(plugin(podSelectors=[{"selector": {"matchLabels": {"a": "b"}}}]))) == []
    )
    only_b = {"matchLabels": {"kubernetes.io/hostname": "b"}}
    assert moves(uneven.round(plugin(nodeSelector=only_b))) == []


def test_resources_that_a_node_has_not_do_not_count(uneven: TestCluster) -> None:
    assert moves(uneven.round(plugin(resources=["cpu", "memory", "example.com/x"]))) == [
        ("c0", "b")
    ]


def test_what_cannot_be_meant_is_refused() -> None:
    given = {"resources": ["cpu", "cpu"], "imbalanceThreshold": -1}
    assert list(msgspec.convert(given, FragmentationAwareArgs).problems("args")) == [
        "args.resources is a list; expected different resources",
        "args.imbalanceThreshold is -1.0; expected 0 or more",
    ]
