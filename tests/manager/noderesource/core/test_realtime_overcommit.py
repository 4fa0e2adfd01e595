"""Ratios that follow what pods use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.node_state import CpuMemory
from koord_manager.noderesource.core.realtime_overcommit import (
    NodeLoad,
    OvercommitLevels,
    present_ratios,
    target_ratio,
)
from koord_manager.slo_config.core.colocation import RealtimeOvercommit, ResourceAmplification
from koord_model.keys import ANNOTATION_AMPLIFICATION_RATIO

ON = RealtimeOvercommit(enable=True)
CONFIG = ResourceAmplification(enable=True, ratios=(("cpu", 2.0),), realtime=ON)


def load(request: int, used: int, guaranteed: int = 0, *, is_known: bool = True) -> NodeLoad:
    """That of a node of ten cores."""
    amounts = (CpuMemory(cpu, 0) for cpu in (10_000, request, used))
    return NodeLoad(*amounts, guaranteed, is_known)


@pytest.mark.parametrize(
    ("configured", "given", "expected"),
    [
        (2.0, load(8000, 2000), 1.8),  # (6000 - 2000) / 0.4 + 8000
        (1.5, load(8000, 2000), 1.5),
        (2.0, load(8000, 8000), 1.0),
        # Requests that are there stay within what is shown, up to what is configured.
        (2.0, load(14_000, 9000), 1.4),
        (1.2, load(14_000, 9000), 1.2),
        # Four of the CPUs are of pods that have them for themselves.
        (2.0, load(8000, 2000, 4000), 1.48),
        (2.0, load(0, 0), 1.0),
        (2.0, load(8000, 0, is_known=False), 1.0),
    ],
)
def test_targets(configured: float, given: NodeLoad, expected: float) -> None:
    assert target_ratio("cpu", configured, given, ON) == pytest.approx(expected)


def test_a_node_rises_and_falls_by_steps_and_keeps_what_it_has_while_it_is_silent() -> None:
    levels, seen = OvercommitLevels(), []

    def move(given: NodeLoad, now: float) -> float:
        levels.move("n1", CONFIG, given, {}, now, 300.0)
        seen.append(round(levels.ratios("n1", CONFIG, {})["cpu"], 2))
        return seen[-1]

    idle, busy, silent = load(5000, 0), load(5000, 6000), load(5000, 0, is_known=False)
    assert [move(idle, 60.0 * minute) for minute in range(4)] == [1.0, 1.1, 1.2, 1.3]
    assert move(busy, 240.0) == 1.2
    assert [move(silent, 300.0), move(silent, 540.0)] == [1.2, 1.2]
    assert move(silent, 600.0) == 1.1  # for longer than it may be silent
    assert move(idle, 86_400.0) == 1.3, "a day of absence counts as two minutes"


def test_a_new_leader_goes_on_from_what_the_node_has() -> None:
    present = present_ratios({ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.95,"x":3}'}, 1.3)
    assert OvercommitLevels().ratios("n1", CONFIG, present) == {"cpu": 1.5}
    assert OvercommitLevels().ratios("n1", CONFIG, {}) == {"cpu": 1.0}
    for wrong in ("", "{", "[1]", '{"cpu":"2"}', '{"cpu":0.5}', "[" * 100_000):
        assert present_ratios({ANNOTATION_AMPLIFICATION_RATIO: wrong}, 1.0) == {}


_MILLI = st.integers(0, 30_000)


@given(st.lists(st.tuples(_MILLI, _MILLI, st.booleans()), min_size=1, max_size=12))
def test_never_below_one_or_what_is_requested_nor_above_what_is_configured(
    history: list[tuple[int, int, bool]],
) -> None:
    levels = OvercommitLevels()
    for minute, (request, used, is_known) in enumerate(history):
        given = load(request, used, 2000, is_known=is_known)
        levels.move("n1", CONFIG, given, {}, 60.0 * minute, 0.0)
        ratio = levels.ratios("n1", CONFIG, {})["cpu"]
        assert max(1.0, min(2.0, request / 10_000)) <= ratio <= 2.0
