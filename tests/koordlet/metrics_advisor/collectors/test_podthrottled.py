"""Throttling of pods and containers, as part of their quotas' periods."""

from __future__ import annotations

import pytest
from koordlet.metrics_advisor.collectors import podthrottled
from koordlet.metrics_advisor.contract.collector import UnavailableError

from tests.koordlet.metrics_advisor.collectors.used_node import Group, Rounds, UsedNode, pod, values

POD, CONTAINER = "kubepods/podu1", "kubepods/podu1/c1"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("periods", "throttled", "ratio"),
    [
        (110, 54, 0.4),
        (110, 50, 0.0),
        (110, 60, 1.0),
        (110, 61, 1.0),
        (100, 50, None),
        (110, 3, None),
        (5, 5, None),
    ],
)
def test_the_ratio_is_of_what_came_since_the_last_look(
    version: int, periods: int, throttled: int, ratio: float | None
) -> None:
    node = UsedNode(version)
    rounds = Rounds(podthrottled.Collector(node.sources))
    for group in (POD, CONTAINER):
        node.put(group, Group(periods=100, throttled=50))
    assert values(rounds.look(pod())) == {}
    node.put(POD, Group(periods=110, throttled=55))
    node.put(CONTAINER, Group(periods=periods, throttled=throttled))
    of_container = {} if ratio is None else {("container_cpu_throttled", "u1", "c1"): ratio}
    assert values(rounds.look(pod())) == {("pod_cpu_throttled", "u1"): 0.5, **of_container}


@pytest.mark.parametrize("version", [1, 2])
def test_a_kernel_without_quotas_is_reported(version: int) -> None:
    node = UsedNode(version)
    text = "usage_usec 5\nuser_usec 5\n" if version == 2 else FileNotFoundError(2, "No such file")
    node.tree.texts[node.path(POD, "cpu", "cpu.stat")] = text
    node.tree.texts[node.path(POD, "cpu", "cpu.weight")] = "100\n"
    rounds = Rounds(podthrottled.Collector(node.sources))
    with pytest.raises(UnavailableError, match="the kernel has no CPU quotas"):
        rounds.look(pod())
