"""The part of the memory that best-effort pods together may have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.node import Kernel, NodeView
from koordlet.qos_manager.core.strategy import Plan, StrategyView
from koordlet.qos_manager.strategies.memory_guard import Settings, plan

from tests.support.formulas import wrong
from tests.support.views import GIB, V1, FakeCgroups, FakeLatest, memory_info, view

BE = "kubepods.slice/kubepods-besteffort.slice"
HIGH = (BE, "memory.high")
ON = Settings(enable=True)
PAGE = 4096


def node(
    use: float | None = 10.0 * GIB,
    free: float = 20.0 * GIB,
    idle: float = 0.0,
    cgroups: FakeCgroups | None = None,
    **others: Any,
) -> StrategyView:
    """Two NUMA nodes of 50 GiB; all that is free is node 1's, of which 4 GiB stay free."""
    values: dict[tuple[str, ...], float] = {} if use is None else {("be_memory_current",): use}
    for number, size in (("0", GIB), ("1", free)):
        values["node_numa_memory_free", number] = size
        values["node_numa_memory_low_watermark", number] = GIB / 8
        values["node_numa_memory_inactive_file", number] = idle
    kernel = NodeView(kernel=Kernel(knobs=frozenset({"memory.high"})))
    latest = FakeLatest(values, memory_info(100 * GIB, 2))
    return view(node=kernel, latest=latest, cgroups=cgroups or FakeCgroups(), **others)


def value(made: Plan) -> float | None:
    """The value in GiB."""
    assert [line for one in made.decisions for line in wrong(one)] == []
    if not made.desired:
        return None
    [one] = made.desired
    assert (one.target.place, one.target.knob) == HIGH
    return int(one.value) / GIB


@pytest.mark.parametrize(
    ("seen", "settings", "high"),
    [
        (node(), {}, (10 + 16) * 0.95),
        (node(free=4.0 * GIB), {}, 10),
        (node(use=4.0 * GIB, free=0.0), {}, 4),
        (node(use=0.0, free=0.0), {}, 0.25),
        # Half of the page cache that nobody used lately counts as free, on both nodes.
        (node(idle=8.0 * GIB), {}, (10 + 1 + 20) * 0.95),
        (node(idle=8.0 * GIB), {"idle_cache_percent": 0}, (10 + 16) * 0.95),
        (node(), {"reserved_percent": 4}, (10 + 18) * 0.95),
        (node(), {"watermark_factor": 8, "reserved_bytes": 0}, (10 + 19) * 0.95),
        (node(cgroups=FakeCgroups({(BE, "cpuset.mems"): "0"})), {}, 10),
        # Somebody else has set a lower one.
        (node(cgroups=FakeCgroups(base={HIGH: 3 * GIB})), {}, 3),
        (node(use=None), {}, None),
        (node(layout=V1), {}, None),
        (node(), {"enable": False}, None),
    ],
)
def test_the_value(seen: StrategyView, settings: dict[str, Any], high: float | None) -> None:
    found = value(plan(seen, Settings(**{"enable": True, **settings}), None))
    assert found == (None if high is None else pytest.approx(high, abs=2 * PAGE / GIB))


def test_it_falls_at_once_and_rises_in_steps() -> None:
    made = plan(node(), ON, None)
    start = value(made)
    assert start is not None
    made = plan(node(free=10.0 * GIB), ON, made.memory)
    assert value(made) == pytest.approx(16 * 0.95, abs=1e-4)
    found = [value(made := plan(node(), ON, made.memory)) for _ in range(12)]
    assert found[:2] == pytest.approx([16.2, 17.2], abs=1e-4)
    # Within a step of where it should be it stays.
    assert start - 1 < (found[-1] or 0) <= start
    assert found[-1] == found[-2]


def test_it_stays_while_nothing_is_known_and_after_a_restart() -> None:
    made = plan(node(free=10.0 * GIB), ON, None)
    again = plan(node(use=None), ON, made.memory)
    assert (value(again), again.memory) == (value(made), made.memory)
    ours = FakeCgroups({HIGH: 12 * GIB}, base={HIGH: -1})
    assert value(plan(node(cgroups=ours), ON, None)) == 13
    theirs = FakeCgroups({HIGH: 12 * GIB})
    assert value(plan(node(cgroups=theirs), ON, None)) == 12


@given(
    st.floats(0, 100), st.floats(0, 50), st.floats(0, 50), st.one_of(st.none(), st.floats(0, 100))
)
def test_never_below_use_nor_into_what_is_kept_free(
    use: float, free: float, idle: float, before: float | None
) -> None:
    memory = None if before is None else int(before * GIB)
    high = value(plan(node(use * GIB, free * GIB, idle * GIB), ON, memory)) or 0
    room = sum(max(size + idle / 2 - 4, 0) for size in (1, free))
    if before is None:
        assert high == pytest.approx(max((use + room) * 0.95, use, 0.25), abs=2 * PAGE / GIB)
    elif high < memory_gib(memory):
        assert high >= use - PAGE / GIB, "it is not lowered below what is in use"
    elif high > memory_gib(memory):
        assert high <= min(max((use + room) * 0.95, 0.25), before + 1) + PAGE / GIB


def memory_gib(memory: int | None) -> float:
    return (memory or 0) / GIB
