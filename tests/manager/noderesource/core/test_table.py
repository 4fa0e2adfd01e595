from __future__ import annotations

import numpy as np
from koord_manager.noderesource.core.node_state import CpuMemory, MeasuredUsage, NodeState
from koord_manager.noderesource.core.table import NODE, STRATEGY, grown, node_row, strategy_row
from koord_manager.slo_config.core.colocation import CalculatePolicy, ColocationStrategy


def test_a_node_by_its_columns() -> None:
    rows = np.zeros(1, NODE)
    facts = NodeState(
        CpuMemory(1, 2),
        CpuMemory(3, 4),
        1.5,
        CpuMemory(5, 6),
        CpuMemory(7, 8),
        MeasuredUsage(9, None),
    )
    rows[0] = node_row(facts)
    assert rows["capacity"].tolist() == [[1, 2]]
    assert rows["reserved"].tolist() == [[3, 4]]
    assert rows["ratio"].tolist() == [1.5]
    assert rows["third"].tolist() == [[[5, 6], [7, 8]]]
    assert rows["offered"].tolist() == [[[9, -1], [-1, -1]]]


def test_cpu_is_never_reckoned_by_requests() -> None:
    rows = np.zeros(1, STRATEGY)
    request = CalculatePolicy.REQUEST
    rows[0] = strategy_row(ColocationStrategy(cpu_policy=request, memory_policy=request))
    assert rows["policy"].tolist() == [[0, 1]]
    assert rows["limit"].tolist() == [[-1, -1]]
    assert rows["degrade"].tolist() == [900.0]


def test_growing_keeps_what_is_there() -> None:
    rows = np.zeros((1, 2), NODE)
    rows[0, 1]["ratio"] = 2.0
    longer = grown(rows, 3)
    assert longer.shape == (3, 2)
    assert longer["ratio"].tolist() == [[0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
