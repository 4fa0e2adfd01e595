"""A round moves what is better off elsewhere, and says why all else stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from koord_descheduler.framework.round import ProfileRound, RoundSettings
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.budgets import (
    MoveLimit,
    of_namespace,
    of_node,
    of_target,
    of_workload,
)
from koord_descheduler.planner.move import Destination, RoundPlan
from koord_descheduler.planner.move_memory import MoveMemory
from koord_descheduler.plugin import DeschedulerPlugin
from koord_model.keys import ANNOTATION_EVICTION_COST
from koord_scheduler.config.scheduler_config import read_scheduler_config

from tests.descheduler.clusters import NOW, Document, TestCluster, node, node_metric, pod
from tests.support.gangs import gang_annotations


class Emptying(DeschedulerPlugin):
    """Asks for every pod of a node to move."""

    name = "Emptying"

    def __init__(self, node: str = "a", destination: Destination = Destination.ELSEWHERE) -> None:
        self.node = node
        self.destination = destination

    def balance(self, cluster: ProfileRound) -> None:
        for one in sorted(cluster.pods_on(self.node), key=lambda pod: pod.view.key):
            cluster.move(one, "emptied", destination=self.destination)


def moves(plan: RoundPlan) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in plan.moves]


def rules(plan: RoundPlan) -> dict[str, str]:
    return {refusal.pod.name: refusal.rule for refusal in plan.refusals}


@pytest.fixture
def small() -> TestCluster:
    found = TestCluster()
    found.put(node("a", cpu="8"), node("b", cpu="4"))
    return found


def state_of(cluster: TestCluster) -> list[np.ndarray]:
    state = cluster.cluster.scheduler.nodes
    return [state.resources.requested.copy(), state.resources.scored.copy()]


def test_chosen_moves_spend_room_of_their_targets(small: TestCluster) -> None:
    small.put(node("a", unschedulable=True), *(pod(f"p{n}", "a", cpu="3") for n in range(2)))
    before = state_of(small)
    plan = small.round(Emptying())
    assert moves(plan) == [("p0", "b")]
    assert rules(plan) == {"p1": "Fit"}
    assert all(map(np.array_equal, before, state_of(small)))


def test_a_pod_that_the_scheduler_would_put_back_stays(small: TestCluster) -> None:
    small.put(pod("p", "a", cpu="1"))
    plan = small.round(Emptying())
    assert (moves(plan), rules(plan)) == ([], {"p": "Return"})
    assert plan.refusals[0].why == "the scheduler would put it back on a"
    assert moves(small.round(Emptying(destination=Destination.ANYWHERE))) == [("p", "a")]


def test_pods_that_wait_get_their_room_first(small: TestCluster) -> None:
    small.put(node("a", unschedulable=True), pod("p", "a", cpu="3"), pod("waits", "", cpu="3"))
    plan = small.round(Emptying())
    assert (moves(plan), rules(plan)) == ([], {"p": "Fit"})


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (MoveLimit("maxNoOfPodsToEvictPerNode", 1, of_node), 1),
        (MoveLimit("maxNoOfPodsToEvictPerNamespace", 2, of_namespace), 2),
        (MoveLimit("maxPodsPerTarget", 0, of_target), 0),
        (MoveLimit("maxNoOfPodsToEvictPerWorkload", 1, of_workload), 1),
    ],
)
def test_budgets_hold(small: TestCluster, limit: MoveLimit, expected: int) -> None:
    small.put(node("a", unschedulable=True), *(pod(f"p{n}", "a", cpu="1") for n in range(3)))
    plan = small.round(Emptying(), limits=[limit])
    assert len(plan.moves) == expected
    assert set(rules(plan).values()) == {"Budget"}


def test_disruption_budgets_are_spent(small: TestCluster) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "app"}}},
        "status": {"disruptionsAllowed": 1},
    }
    small.put(budget, node("a", unschedulable=True), pod("p0", "a"), pod("p1", "a"))
    plan = small.round(Emptying())
    assert moves(plan) == [("p0", "b")]
    assert plan.refusals[0].why == "PodDisruptionBudget pdb allows no disruption now"


NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


@pytest.mark.parametrize(
    ("status", "policy", "healthy", "expected"),
    [
        (NOT_READY, None, 1, True),
        (NOT_READY, None, 0, False),
        (NOT_READY, "AlwaysAllow", 0, True),
        ({}, "AlwaysAllow", 1, False),
        ({"phase": "Pending"}, None, 0, True),
        ({"phase": "Failed"}, None, 0, True),
    ],
)
def test_budgets_of_pods_that_do_not_serve(
    small: TestCluster, status: Document, policy: str | None, healthy: int, expected: bool
) -> None:
    selector = {"matchLabels": {"app": "app"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default"},
        "spec": {"selector": selector, "unhealthyPodEvictionPolicy": policy},
        "status": {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": 1},
    }
    small.put(budget, node("a", unschedulable=True), pod("p", "a", status=status))
    plan = small.round(Emptying(destination=Destination.NOWHERE))
    assert bool(plan.moves) is expected


def test_no_pod_goes_back_to_a_node_that_one_of_its_owner_left(small: TestCluster) -> None:
    small.put(node("a", unschedulable=True), pod("p", "a"))
    memory = MoveMemory(60.0)
    first = small.round(Emptying(), memory=memory)
    memory.add(first.moves[0], NOW - 50)
    small.put(node("a"), node("b", unschedulable=True), pod("p", "b"))
    plan = small.round(Emptying("b"), memory=memory)
    assert plan.refusals[0].why == "a: a pod of its owner left it 50 s ago"


def test_a_pod_that_was_just_scheduled_stays(small: TestCluster) -> None:
    small.put(node("a", unschedulable=True), pod("p", "a"))
    plan = small.round(Emptying(), settings=RoundSettings(cool_down=3601.0))
    assert rules(plan) == {"p": "CoolDown"}


def test_a_plugin_that_fails_costs_only_its_own_moves(small: TestCluster) -> None:
    class Failing(Emptying):
        name = "Failing"

        def balance(self, cluster: ProfileRound) -> None:
            super().balance(cluster)
            raise RuntimeError("broken")

    small.put(node("a", unschedulable=True), pod("p", "a"))
    plan = small.round(Failing(), Emptying())
    assert [(move.plugin, move.pod.name) for move in plan.moves] == [("Emptying", "p")]
    assert plan.notes == {"Failing/defect": "RuntimeError: broken"}


def test_a_pod_that_moves_is_not_refused(small: TestCluster) -> None:
    small.put(node("a", unschedulable=True), pod("p", "a"))
    plan = small.round(Emptying(), Emptying())
    assert (moves(plan), rules(plan)) == ([("p", "b")], {})


def test_moves_of_a_plugin_in_dry_run_are_notes(small: TestCluster) -> None:
    pretending = Emptying()
    pretending.dry_run = True
    small.put(node("a", unschedulable=True), pod("p", "a"))
    plan = small.round(pretending)
    assert plan.moves == ()
    assert plan.notes == {"Emptying/dryRun": ["default/p from a to b: emptied"]}


def test_filters_of_plugins_are_asked(small: TestCluster) -> None:
    class Keeping(DeschedulerPlugin):
        name = "Keeping"

        def filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
            return "kept" if pod.name == "p0" else ""

        def pre_eviction_filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
            return "kept late" if pod.name == "p1" else ""

    small.put(node("a", unschedulable=True), *(pod(f"p{n}", "a") for n in range(3)))
    plan = small.round(Emptying(), Keeping({}))
    assert moves(plan) == [("p2", "b")]
    assert {one.why for one in plan.refusals} == {"kept", "kept late"}


def test_usage_follows_moves_and_their_undoing(small: TestCluster) -> None:
    seen = []

    class Looking(Emptying):
        def balance(self, cluster: ProfileRound) -> None:
            usages, mark = cluster.usages(180.0), cluster.virtual.mark()
            super().balance(cluster)
            later = cluster.usages(90.0)
            for found in (usages, later):
                seen.append([found.of(name).used["cpu"] for name in ("a", "b")])  # type: ignore[union-attr]
            cluster.virtual.undo(mark)
            for found in (usages, later):
                seen.append([found.of(name).used["cpu"] for name in ("a", "b")])  # type: ignore[union-attr]

    small.put(
        node("a", unschedulable=True),
        pod("p", "a"),
        node_metric(
            "a", {"cpu": "500m"}, {"default/p": {"cpu": "2"}, "default/gone": {"cpu": "4"}}
        ),
        node_metric("b", {"cpu": "100m"}, {}),
    )
    small.round(Looking())
    assert seen == [[500, 2100]] * 2 + [[2500, 100]] * 2


GANG_PLUGINS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}
"""


@pytest.fixture
def gang() -> TestCluster:
    """Two pods of a gang on a node that is cordoned, and room for them elsewhere."""
    found = TestCluster(read_scheduler_config(GANG_PLUGINS))
    found.put(node("a", unschedulable=True), node("b", cpu="3"), node("c", cpu="3"))
    found.put(*(gang_pod(f"p{number}") for number in range(2)))
    return found


def gang_pod(name: str, **more: Any) -> Document:
    annotations = gang_annotations("g", 2) | more.pop("annotations", {})
    return pod(name, "a", cpu="2", annotations=annotations, **more)


def test_a_gang_moves_as_a_whole(gang: TestCluster) -> None:
    plan = gang.round(Emptying())
    assert sorted(moves(plan)) in ([("p0", "b"), ("p1", "c")], [("p0", "c"), ("p1", "b")])
    assert {move.group for move in plan.moves} == {"default/g"}


@pytest.mark.parametrize(
    ("change", "rule", "why"),
    [
        (lambda: node("c", cpu="1"), "Fit", "default/p1 of its gang stays: 0/3 nodes are"),
        (
            lambda: gang_pod("p1", annotations={ANNOTATION_EVICTION_COST: str(2**31 - 1)}),
            "Protected",
            "default/p1 of its gang stays: has the highest",
        ),
    ],
)
def test_a_gang_stays_as_a_whole(
    gang: TestCluster, change: Callable[[], Document], rule: str, why: str
) -> None:
    gang.put(change())
    plan = gang.round(Emptying())
    assert plan.moves == ()
    refusal = next(one for one in plan.refusals if one.pod.name == "p0")
    assert refusal.rule == rule
    assert refusal.why.startswith(why)
