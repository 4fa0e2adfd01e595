"""Throttling of pods and containers, as part of their quotas' periods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.metrics_advisor.collectors import podthrottled
from koordlet.metrics_advisor.contract.collector import UnavailableError

from tests.koordlet.metrics_advisor.collectors.used_node import Group, Rounds, UsedNode, pod, values

POD, CONTAINER = "kubepods/podu1", "kubepods/podu1/c1"
OF_POD, OF_CONTAINER = ("pod_cpu_throttled", "u1"), ("container_cpu_throttled", "u1", "c1")


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest) -> UsedNode:
    made = UsedNode(request.param)
    made.put(POD, Group(periods=1000, throttled=500))
    made.put(CONTAINER, Group(periods=100, throttled=50))
    return made


@pytest.fixture
def rounds(node: UsedNode) -> Rounds:
    return Rounds(podthrottled.Collector(node.sources))


def test_the_ratio_is_of_what_came_since_the_last_look(node: UsedNode, rounds: Rounds) -> None:
    assert values(rounds.look(pod())) == {}
    node.put(POD, Group(periods=1010, throttled=504))
    node.put(CONTAINER, Group(periods=110, throttled=50))
    assert values(rounds.look(pod())) == {OF_POD: pytest.approx(0.4), OF_CONTAINER: 0.0}


def test_without_periods_there_is_no_sample(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(pod())
    node.put(CONTAINER, Group(periods=110, throttled=60))
    assert values(rounds.look(pod())) == {OF_CONTAINER: 1.0}


def test_a_restarted_container_says_nothing_once(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(pod())
    node.put(CONTAINER, Group(periods=5, throttled=5))
    assert values(rounds.look(pod())) == {}
    node.put(CONTAINER, Group(periods=10, throttled=6))
    assert values(rounds.look(pod())) == {OF_CONTAINER: pytest.approx(0.2)}


def test_a_counter_of_throttling_alone_that_falls(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(pod())
    node.put(CONTAINER, Group(periods=110, throttled=3))
    assert values(rounds.look(pod())) == {}


def test_vanished_and_unreadable_groups(node: UsedNode, rounds: Rounds) -> None:
    file = node.path(CONTAINER, "cpu", "cpu.stat")
    rounds.look(pod())
    node.tree.texts[file] = OSError(19, "No such device")
    node.put(POD, Group(periods=1010, throttled=505))
    found = rounds.look(pod())
    assert (values(found), found.partial) == ({OF_POD: pytest.approx(0.5)}, ())
    node.tree.texts[file] = "nr_periods x\n"
    node.put(POD, Group(periods=1020, throttled=505))
    found = rounds.look(pod())
    assert values(found) == {OF_POD: 0.0}
    assert found.partial == (f'{file}: "x" where a counter belongs',)
    node.remove(POD)
    found = rounds.look(pod())
    assert (found.samples, found.partial) == ([], ())


@pytest.mark.parametrize("version", [1, 2])
def test_a_kernel_without_quotas_is_told_of(version: int) -> None:
    node = UsedNode(version)
    text = "usage_usec 5\nuser_usec 5\n" if version == 2 else FileNotFoundError(2, "No such file")
    node.tree.texts[node.path(POD, "cpu", "cpu.stat")] = text
    node.tree.texts[node.path(POD, "cpu", "cpu.weight")] = "100\n"
    rounds = Rounds(podthrottled.Collector(node.sources))
    with pytest.raises(UnavailableError, match="the kernel has no CPU quotas"):
        rounds.look(pod())


@given(st.lists(st.tuples(st.integers(0, 1 << 64), st.integers(0, 1 << 64), st.floats(0, 30))))
def test_a_ratio_is_between_none_and_all(steps: list[tuple[int, int, float]]) -> None:
    node = UsedNode()
    rounds = Rounds(podthrottled.Collector(node.sources))
    for periods, throttled, seconds in steps:
        node.put(POD, Group(periods=periods, throttled=throttled))
        found = rounds.look(pod(containers=()), seconds=seconds)
        assert all(0 <= value <= 1 for value in values(found).values())
