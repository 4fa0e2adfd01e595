"""The plugin in a round: it counts the moves that the round chose, and those under way."""

from __future__ import annotations

from typing import Any

import pytest
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.planner.move import Move, RoundPlan
from koord_descheduler.planner.workloads import Replicas
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.plugin import MigrationControllerPlugin
from koord_scheduler.arguments.problems import convert

from tests.descheduler.clusters import TestCluster, node, pod


class Emptying(DeschedulerPlugin):
    name = "Emptying"

    def __init__(self) -> None:
        pass

    def balance(self, cluster: ProfileRound) -> None:
        for one in sorted(cluster.pods_on("a"), key=lambda pod: pod.view.key):
            cluster.move(one, "emptied")


@pytest.fixture
def cluster() -> TestCluster:
    found = TestCluster()
    found.put(node("a", unschedulable=True), node("b", labels={"pool": "b"}))
    found.put(*(pod(f"p{place}", "a", owner=f"app-{place}") for place in range(3)))
    for known in list(found.cluster.pods.values()):
        assert known.view.template.workload is not None
        found.cluster.workloads.learn(known.view.template.workload, Replicas(4), 0.0)
    return found


def plugin(**fields: Any) -> MigrationControllerPlugin:
    given = {"schedulerNames": ["default-scheduler"], **fields}
    return MigrationControllerPlugin(convert(given, MigrationControllerArgs))


def kept(plan: RoundPlan) -> dict[str, str]:
    return {refusal.pod.name: refusal.why for refusal in plan.refusals}


def test_a_round_does_not_overshoot(cluster: TestCluster) -> None:
    plan = cluster.round(plugin(), Emptying())
    assert [move.pod.name for move in plan.moves] == ["p0", "p1"]
    assert kept(plan) == {"p2": "maxMigratingPerNode is 2, and 2 pods move already"}
    under_way = [Move(cluster.cluster.pods["default/p2"].view, "b", "test", "Emptying", "r")]
    plan = cluster.round(plugin(), Emptying(), under_way=under_way)
    assert [move.pod.name for move in plan.moves] == ["p0"]


def test_a_workload_whose_pods_were_evicted_lately_rests(cluster: TestCluster) -> None:
    found = plugin()
    found.limiters.spend("uid-of-app-0", "default", 4, 1_700_000_000.0)
    assert kept(cluster.round(found, Emptying()))["p0"].startswith("objectLimiters allow")


def test_the_scheduler_has_to_know_reservations(cluster: TestCluster) -> None:
    plan = cluster.round(plugin(schedulerNames=["koord-scheduler"]), Emptying())
    assert not plan.moves
    assert "its scheduler is default-scheduler" in kept(plan)["p0"]


@pytest.mark.parametrize(
    ("selector", "gates", "moves"),
    [("pool=b", [], 2), ("pool=c", [], 0), ("pool=c", ["NodeFit"], 2)],
)
def test_node_fit_is_among_the_selected_nodes(
    cluster: TestCluster, selector: str, gates: list[str], moves: int
) -> None:
    found = plugin(nodeFit=True, nodeSelector=selector, skipEvictionGates=gates)
    plan = cluster.round(found, Emptying())
    assert len(plan.moves) == moves
    if not moves:
        assert set(kept(plan).values()) == {"it fits on no other node (nodeFit)"}
