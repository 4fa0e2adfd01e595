"""The controller: bounded, without windup, monotone, and it settles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.strategies.pressure_suppress.feedback import (
    FeedbackState,
    FeedbackTuning,
    error_of,
    step,
)

USUAL = FeedbackTuning(0.01, 0.002, 0.005, 0.02)
SECONDS = 10.0


def test_error() -> None:
    errors = [error_of(measured, 10.0, 0.3) for measured in (0, 5, 7, 10, 13, 20, 40, 90)]
    assert errors == pytest.approx([0.7, 0.2, 0, 0, 0, -0.7, -2.7, -4.0])


@pytest.mark.parametrize(
    ("before", "error", "seconds", "in_force", "bound"),
    [
        (FeedbackState(32, 0), 0, 10, None, 32),
        (FeedbackState(32, 0.5), 0.5, 10, None, 32.64),
        (FeedbackState(32, 0), 0.5, 10, None, 32.96),
        (FeedbackState(32, 0), -1, 10, None, 30.08),
        (FeedbackState(32, 0), -1, 10, 20.0, 18.08),  # less is in force
        (FeedbackState(32, 0), -1, 10, 40.0, 30.08),
        (FeedbackState(32, 0.5), 0.5, 10, 20.0, 32.64),  # up from its own bound
        (FeedbackState(32, 1), 4, 10, None, 35.2),  # rises no faster
        (FeedbackState(32, -4), -4, 1, None, 31.488),
        (FeedbackState(32, 1), -4, 1, None, 30.72),  # falls no faster
        (FeedbackState(3, 0), -4, 10, None, 2),
        (FeedbackState(63.9, 1), 1, 10, None, 64),
        (FeedbackState(32, 1), 1, 600, None, 39.68),  # after a gap
        (FeedbackState(32, 0), -1, -5, None, 32),  # a clock that went back
    ],
)
def test_step(
    before: FeedbackState, error: float, seconds: float, in_force: float | None, bound: float
) -> None:
    after = step(before, error, seconds, USUAL, 2.0, 64.0, in_force)
    assert after == pytest.approx((bound, error))


ERRORS = st.floats(-4, 1)
TUNINGS = st.builds(
    FeedbackTuning,
    st.floats(0, 1),
    st.floats(0.0001, 0.1),
    st.floats(0.001, 1),
    st.floats(0.001, 1),
)
FORCES = st.one_of(st.none(), st.floats(0, 64))


@given(TUNINGS, st.lists(st.tuples(ERRORS, st.floats(0, 100), FORCES), max_size=50))
def test_the_bound_stays_in_its_range_and_moves_no_faster_than_it_may(
    tuning: FeedbackTuning, run: list[tuple[float, float, float | None]]
) -> None:
    state = FeedbackState(64.0, 0.0)
    for error, seconds, in_force in run:
        after = step(state, error, seconds, tuning, 2.0, 64.0, in_force)
        assert 2 <= after.bound <= 64
        assert after.bound - state.bound <= tuning.rise * min(seconds, 60) * 64 + 1e-9
        if in_force is None:
            assert state.bound - after.bound <= tuning.fall * min(seconds, 60) * 64 + 1e-9
        state = after


@given(TUNINGS, st.floats(2, 64), ERRORS, ERRORS, ERRORS, st.floats(0, 60), FORCES)
def test_who_waits_more_never_gets_a_higher_bound(
    tuning: FeedbackTuning,
    bound: float,
    last: float,
    one: float,
    other: float,
    seconds: float,
    in_force: float | None,
) -> None:
    worse, better = sorted((one, other))
    before = FeedbackState(bound, last)
    low = step(before, worse, seconds, tuning, 2.0, 64.0, in_force).bound
    assert low <= step(before, better, seconds, tuning, 2.0, 64.0, in_force).bound + 1e-9


def test_nothing_winds_up_at_an_end() -> None:
    high = low = FeedbackState(32.0, 0.0)
    for _ in range(1000):
        high = step(high, 1.0, SECONDS, USUAL, 2.0, 64.0)
        low = step(low, -4.0, SECONDS, USUAL, 2.0, 64.0)
    assert (high.bound, low.bound) == (64.0, 2.0)
    assert step(high, -0.5, SECONDS, USUAL, 2.0, 64.0).bound < 64.0
    assert step(low, 0.5, SECONDS, USUAL, 2.0, 64.0).bound > 2.0


@given(st.floats(10, 60), st.floats(20, 300), st.floats(2, 64), st.floats(0, 0.4))
def test_it_settles_where_the_target_is(
    knee: float, slope: float, start: float, lag: float
) -> None:
    """Pods begin to wait at a knee, and ``slope`` percent more for a whole node more.

    What is measured follows with a lag, as the kernel's average of 10 s does.
    """
    state, measured = FeedbackState(start, 0.0), 0.0
    bounds = []
    for _ in range(600):
        waiting = min(max(slope * (state.bound - knee) / 64 + 5.0, 0.0), 100.0)
        measured = lag * measured + (1 - lag) * waiting
        state = step(state, error_of(measured, 10.0, 0.3), SECONDS, USUAL, 2.0, 64.0)
        bounds.append(state.bound)
    tail = bounds[-20:]
    assert max(tail) - min(tail) < 0.05
    settled = slope * (tail[-1] - knee) / 64 + 5.0
    assert settled == pytest.approx(10.0, abs=3.1) or math.isclose(tail[-1], 64.0)
