"""What the kubelet sets meanwhile is what is put back, and what is waited for."""

from __future__ import annotations

import pytest
from koord_host.planning.desired_values import Target
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.kubelet_limits import SURE_SECONDS, WAIT_SECONDS

from tests.host.conftest import HOOKS, STRATEGY, Node, desired, only, outcomes

POD = "kubepods/besteffort/pod1"
CONTAINER, OTHER = f"{POD}/c1", f"{POD}/c2"
QUOTA, PERIOD, IDLE = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.idle"


@pytest.fixture
def pod(node: Node) -> Node:
    """A pod of 2 CPUs with containers of one each; cgroup v1."""
    node.files.make_group(OTHER)
    for group, quota in ((POD, "200000"), (CONTAINER, "100000"), (OTHER, "100000")):
        node.set(group, QUOTA, quota)
    return node


def test_a_strategy_s_value_waits_until_it_is_computed_anew(pod: Node) -> None:
    pod.set_desired(desired(CONTAINER, QUOTA, 120_000), owner=STRATEGY)
    pod.set(CONTAINER, QUOTA, "150000")
    target = Target(CONTAINER, QUOTA)
    found = only(pod.set_desired(desired(CONTAINER, QUOTA, 144_000), owner=STRATEGY))
    assert (found.outcome, found.old) == (Outcome.WAITING, 150_000)
    assert pod.executor.base(target) == 150_000
    assert only(pod.later(WAIT_SECONDS)).outcome is Outcome.WRITTEN
    pod.let_go()
    assert pod.value(CONTAINER, QUOTA) == "150000"


def test_a_hook_s_value_does_not_wait(pod: Node) -> None:
    pod.set_desired(desired(CONTAINER, QUOTA, 80_000), owner=HOOKS)
    pod.set(CONTAINER, QUOTA, "150000")
    assert only(pod.set_desired(desired(CONTAINER, QUOTA, 90_000))).outcome is Outcome.WRITTEN
    assert pod.restore()[Target(CONTAINER, QUOTA)].new == 150_000


@pytest.mark.parametrize("sooner", [POD, CONTAINER])
def test_nobody_has_more_than_a_pod_that_waits_nor_a_pod_less(pod: Node, sooner: str) -> None:
    raised = (desired(POD, QUOTA, 300_000), desired(OTHER, QUOTA, 150_000))
    pod.set_desired(*raised, desired(CONTAINER, QUOTA, 120_000), owner=STRATEGY)
    if sooner == POD:
        pod.set(POD, QUOTA, "160000")
        plan = desired(POD, QUOTA, 350_000), desired(OTHER, QUOTA, 180_000)
    else:
        pod.set(CONTAINER, QUOTA, "180000")
        plan = desired(POD, QUOTA, 170_000), desired(OTHER, QUOTA, 150_000)
    last = desired(CONTAINER, QUOTA, 130_000)
    found = outcomes(pod.set_desired(*plan, last, owner=STRATEGY))
    assert found[POD, QUOTA] is Outcome.WAITING
    assert found.get((OTHER, QUOTA)) in (Outcome.WAITING, None)
    assert pod.files.refusals == {}
    pod.later(WAIT_SECONDS)
    assert pod.value(POD, QUOTA) == str(plan[0].value)


@pytest.mark.parametrize(("period", "listed"), [("100000", 150_000), ("50000", 300_000)])
@pytest.mark.parametrize("late", [False, True])
def test_what_the_list_says_for_long_is_believed(
    pod: Node, late: bool, period: str, listed: int
) -> None:
    """Where the kubelet's write was lost, also where its former word was put back already."""
    pod.set(POD, QUOTA, "400000")
    pod.set(CONTAINER, PERIOD, period)
    target = Target(CONTAINER, QUOTA)
    pod.set_desired(desired(CONTAINER, QUOTA, 120_000), owner=STRATEGY)
    if late:
        pod.let_go()
    pod.executor.set_listed("pod 1", {target: listed})
    pod.later(SURE_SECONDS - 1)
    assert pod.executor.base(target) == (None if late else 100_000)
    pod.later(1)
    if not late:
        assert pod.executor.base(target) == 150_000
        pod.let_go()
    assert pod.value(CONTAINER, QUOTA) == "150000"
    writes = list(pod.files.writes)
    pod.later(600)
    assert pod.files.writes == writes
    assert pod.nothing_is_left()


def test_the_list_limits_nobody_whom_files_do_not_nor_whom_no_strategy_holds(pod: Node) -> None:
    pod.set(OTHER, QUOTA, "-1")
    targets = [Target(CONTAINER, QUOTA), Target(OTHER, QUOTA)]
    pod.set_desired(desired(OTHER, QUOTA, 120_000), owner=STRATEGY)
    pod.set_desired(desired(CONTAINER, QUOTA, 80_000), owner=HOOKS)
    pod.executor.set_listed("pod 1", dict.fromkeys(targets, 150_000))
    pod.later(SURE_SECONDS)
    pod.let_go()
    assert (pod.value(OTHER, QUOTA), pod.value(CONTAINER, QUOTA)) == ("-1", "80000")
    assert pod.restore()[targets[0]].new == 100_000


def test_shares_that_an_idle_group_shows_are_nobody_s_word(node2: Node) -> None:
    node2.set_desired(desired(POD, "cpu.shares", 2000), owner=STRATEGY)
    node2.set_desired(desired(POD, IDLE, 1), owner=STRATEGY, scope="idle")
    node2.later(61)
    before = node2.executor.base(Target(POD, "cpu.shares"))
    node2.let_go(scope="idle")
    node2.let_go()
    assert node2.executor.base(Target(POD, "cpu.shares")) is None
    assert before is not None
    assert node2.value(POD, "cpu.shares") == "100"
