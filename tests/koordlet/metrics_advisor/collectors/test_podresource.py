"""CPU and memory of pods and containers."""

from __future__ import annotations

import pytest
from koordlet.metrics_advisor.collectors import podresource

from tests.koordlet.metrics_advisor.collectors.used_node import (
    SECOND,
    Group,
    Rounds,
    UsedNode,
    pod,
    values,
)

POD, CONTAINER = "kubepods/podu1", "kubepods/podu1/c1"


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_known_at_once_and_cpu_at_the_second_look(version: int) -> None:
    node = UsedNode(version)
    node.put(POD, Group(5 * SECOND, anonymous=300, unevictable=40, file=9999))
    node.put(CONTAINER, Group(2 * SECOND, anonymous=200, unevictable=40, file=9999))
    node.put("kubepods/podu2", Group(0, anonymous=7))
    rounds = Rounds(podresource.Collector(node.sources))
    memory = {
        ("pod_memory_usage", "u1"): 340.0,
        ("container_memory_usage", "u1", "c1"): 240.0,
        ("pod_memory_usage", "u2"): 7.0,
    }
    pods = pod(handler="kata-qemu"), pod("u2", ())
    assert values(rounds.look(*pods)) == memory
    assert len(node.tree.reads) == 2 * 3
    node.put(POD, Group(8 * SECOND, anonymous=300, unevictable=40))
    node.put(CONTAINER, Group(3 * SECOND, anonymous=200, unevictable=40))
    assert values(rounds.look(*pods, seconds=2.0)) == memory | {
        ("pod_cpu_usage", "u1"): pytest.approx(1.5),
        ("container_cpu_usage", "u1", "c1"): pytest.approx(0.5),
        ("pod_cpu_usage", "u2"): 0.0,
    }
