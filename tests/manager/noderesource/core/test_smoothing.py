from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.smoothing import NONE, SmoothedLevels, StepBounds, move

CAPACITY = 1000


def moved(
    target: int,
    level: int,
    *,
    fall: int = 0,
    rise: int = 0,
    ceiling: int = CAPACITY,
    at: float = 0.0,
    now: float = 60.0,
    step: float = 60.0,
) -> tuple[int, float]:
    bounds = StepBounds(np.array([fall]), np.array([rise]), np.array([step]))
    before = SmoothedLevels(np.array([level]), np.array([at]))
    found = move(np.array([target]), before, np.array([ceiling]), np.array([CAPACITY]), bounds, now)
    return int(found.level[0]), float(found.at[0])


@pytest.mark.parametrize(
    ("target", "level", "bounds", "expected"),
    [
        (900, 100, {}, (900, 60.0)),
        (100, 900, {}, (100, 60.0)),
        (900, 100, {"rise": 5}, (150, 60.0)),
        (120, 100, {"rise": 5}, (120, 60.0)),
        # A fall is at once where only rises are bounded.
        (100, 900, {"rise": 5}, (100, 60.0)),
        (100, 900, {"fall": 10}, (800, 60.0)),
        (900, 100, {"fall": 10}, (900, 60.0)),
        # Not twice in one step.
        (900, 100, {"rise": 5, "now": 59.0}, (100, 0.0)),
        (100, 900, {"fall": 5, "now": 59.0}, (900, 0.0)),
        # What there is not, nobody gets, however bounded a fall is and whenever.
        (100, 900, {"fall": 10, "ceiling": 300}, (300, 60.0)),
        (100, 900, {"fall": 10, "ceiling": 300, "now": 59.0}, (300, 59.0)),
        # What is not offered yet begins where it was reckoned.
        (700, NONE, {"rise": 5, "now": 1.0}, (700, 1.0)),
        (500, 500, {"rise": 5, "fall": 5}, (500, 0.0)),
    ],
)
def test_steps(
    target: int, level: int, bounds: dict[str, int], expected: tuple[int, float]
) -> None:
    assert moved(target, level, **bounds) == expected


def test_a_tiny_bound_still_arrives() -> None:
    bounds = StepBounds(np.array([0]), np.array([1]), np.array([60.0]))
    before = SmoothedLevels(np.array([3]), np.array([0.0]))
    found = move(np.array([9]), before, np.array([9]), np.array([9]), bounds, 60.0)
    assert found.level.tolist() == [4]


@given(
    target=st.integers(0, CAPACITY),
    start=st.integers(0, CAPACITY),
    fall=st.integers(1, 100),
    rise=st.integers(1, 100),
    step=st.integers(1, 4),
)
def test_bounds_hold_and_it_converges(
    target: int, start: int, fall: int, rise: int, step: int
) -> None:
    level, at, levels = start, 0.0, [start]
    for now in range(1, 100 * step + 1):
        before = level
        level, at = moved(target, level, fall=fall, rise=rise, at=at, now=now, step=step)
        assert min(before, target) <= level <= max(before, target)
        levels.append(level)
    assert level == target
    for place in range(len(levels) - step):
        change = levels[place + step] - levels[place]
        assert -fall * CAPACITY // 100 <= change <= rise * CAPACITY // 100


@given(
    target=st.integers(0, CAPACITY),
    level=st.integers(NONE, CAPACITY),
    ceiling=st.integers(0, CAPACITY),
    fall=st.integers(0, 100),
    rise=st.integers(0, 100),
    now=st.floats(0, 200),
)
def test_never_above_what_there_is(
    target: int, level: int, ceiling: int, fall: int, rise: int, now: float
) -> None:
    target = min(target, ceiling)
    found, _ = moved(target, level, fall=fall, rise=rise, ceiling=ceiling, now=now)
    assert 0 <= found <= ceiling
