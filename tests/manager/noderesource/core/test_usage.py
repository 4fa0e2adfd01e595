"""Usage and offers of nodes, as people see them."""

from __future__ import annotations

from koord_manager.noderesource.core.fleet import Fleet
from koord_manager.noderesource.core.node_state import CpuMemory, MeasuredUsage, NodeState
from koord_manager.noderesource.core.pods import PodSummary
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_model.priority import PriorityClass

from tests.manager.noderesource.core.test_fleet import NOW, status

MIB = 1 << 20
SIZE = CpuMemory(10_000, 1000 * MIB)


def test_nodes_by_what_they_have() -> None:
    fleet = Fleet()
    strategy = ColocationStrategy(enable=True)
    offer = MeasuredUsage(6000, 250 * MIB)
    for name, state in {
        "fast": NodeState(capacity=SIZE, ratio=2.0, batch=offer),
        "silent": NodeState(capacity=SIZE, batch=offer),
        "new": NodeState(capacity=SIZE),
        "gone": NodeState(capacity=SIZE),
        "unknown": NodeState(),
    }.items():
        fleet.node(name, state, strategy, NOW)
    fleet.metric("fast", status(4000, 500 * MIB), NOW)
    fleet.metric("silent", status(4000, 500 * MIB), NOW - strategy.degrade_seconds - 1)
    batch = PodSummary("fast", True, PriorityClass.BATCH, False, 0, 0)
    fleet.pod("ns/web", None, batch)
    fleet.drop("gone")
    fleet.calculate(NOW)
    usage = fleet.usage(NOW)
    assert usage.names == ["fast", "silent", "new", "unknown"]
    assert usage.capacity["memory"] == [1000, 1000, 1000, 0]
    assert usage.percents == {
        "cpu": [40, -1, -1, -1],
        "memory": [50, -1, -1, -1],
        "batch_offered": [30, 60, -1, -1],
        "batch_used": [40, -1, -1, -1],
    }
    assert usage.sums["used"] == {"cpu": 4000, "memory": 500}
    assert usage.sums["batch_offered"] == {"cpu": 9000, "memory": 500}
    assert usage.sums["batch_used"] == {"cpu": 4000, "memory": 500}
