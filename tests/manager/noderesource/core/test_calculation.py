from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.calculation import CalculationPass, NodeTables, calculate
from koord_manager.noderesource.core.table import ACCOUNT, NODE, STATE, STRATEGY, ZONE, Rows

NOW, SETTLED = 2000.0, 900.0
_HIGHEST = {
    "degrade": 900,
    "report": 40,
    "hold": 300,
    "step": 60,
    "update": 300,
    "policy": 2,
    "ratio": 3,
}
_PERCENT = ("reclaim", "limit", "mid_limit", "mid_unallocated", "mid_share", "fall", "rise")
_NONE_TOO = ("offered", "level", "limit", "node_used", "reclaimable")


def drawn(seed: int, kind: np.dtype[np.void], shape: tuple[int, ...]) -> Rows:
    """Rows of anything that may be in them."""
    random = np.random.default_rng(seed)
    rows = np.zeros(shape, kind)
    for name in kind.names or ():
        column = rows[name]
        if column.dtype == bool:
            rows[name] = random.random(column.shape) < 0.8
            continue
        high = 100 if name in _PERCENT else _HIGHEST.get(name, 2000)
        low = -1 if name in _NONE_TOO else 0
        rows[name] = random.integers(low, high + 1, column.shape)
    if "ratio" in (kind.names or ()):
        rows["ratio"] = 1 + rows["ratio"] / 2
    return rows


def tables(seed: int, number: int, zones: int) -> NodeTables:
    return NodeTables(
        drawn(seed, NODE, (number,)),
        drawn(seed + 1, ACCOUNT, (number,)),
        drawn(seed + 2, STRATEGY, (number,)),
        drawn(seed + 3, STATE, (number,)),
        drawn(seed + 4, ZONE, (number, zones)),
    )


def alone(of: NodeTables, node: int) -> NodeTables:
    return NodeTables(
        *(
            getattr(of, name)[node : node + 1].copy()
            for name in ("nodes", "accounts", "strategies", "states", "zones")
        )
    )


@given(
    seed=st.integers(0, 1 << 32),
    number=st.integers(0, 8),
    zones=st.integers(0, 3),
    now=st.sampled_from([500.0, 950.0, NOW, 4000.0]),
)
def test_a_node_alone_comes_to_the_same_as_among_others(
    seed: int, number: int, zones: int, now: float
) -> None:
    together = tables(seed, number, zones)
    single = [alone(together, node) for node in range(number)]
    found = calculate(together, now, SETTLED)
    for node, one in enumerate(single):
        own = calculate(one, now, SETTLED)
        for name in ("offered", "outcomes", "zones", "due", "zones_due"):
            assert (getattr(own, name)[0] == getattr(found, name)[node]).all(), name
        assert one.states[0] == together.states[node]


@given(seed=st.integers(0, 1 << 32), now=st.sampled_from([950.0, NOW, 4000.0]))
def test_what_is_offered_is_there(seed: int, now: float) -> None:
    given_ = tables(seed, 5, 2)
    found: CalculationPass = calculate(given_, now, SETTLED)
    nodes = given_.nodes
    most = nodes["capacity"] * np.stack((nodes["ratio"], np.ones(5)), axis=1)
    assert (found.offered[:, 0] <= most).all()
    assert (found.offered[:, 1] <= nodes["capacity"]).all()
    assert (found.offered >= -1).all()
    batch = np.maximum(found.offered[:, 0], 0)
    assert (np.maximum(found.zones, 0).sum(axis=1) <= batch).all()


def test_nobody_is_due_of_no_nodes() -> None:
    found = calculate(tables(1, 0, 2), NOW, SETTLED)
    assert found.due.shape == found.zones_due.shape == (0,)
