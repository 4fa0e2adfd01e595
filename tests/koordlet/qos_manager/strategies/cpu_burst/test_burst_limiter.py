"""Tokens: for how long a container may use more than its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.strategies.cpu_burst.burst_limiter import (
    BurstTokens,
    begin,
    spend,
    spread,
)

FULL = BurstTokens(1000.0, 2000.0, 100.0)
NEW = begin("c", 10, 300, 120.5)


def after(use: float | None, seconds: float = 1.0) -> BurstTokens:
    return spend(FULL, "c", 10, 300, use, 100.0 + seconds)


def test_tokens_are_spent_above_the_limit_and_saved_well_below() -> None:
    uses = (300, 100.5, 100, 99, 60, 59, 0, None)
    expected = [800, 999.5, 1000, 1000, 1000, 1041, 1100, 1000]
    assert [after(use).left for use in uses] == pytest.approx(expected)
    assert after(200.0, 0.999).left == pytest.approx(1000 - 99.9)
    assert after(300.0, 20).left == -2000.0


def test_they_begin_anew_after_silence_and_with_another_capacity() -> None:
    assert after(300.0, 20.5) == spend(None, "c", 10, 300, 300.0, 120.5) == NEW
    assert after(300.0, -1).at == 99.0  # no time has passed backwards
    assert spend(FULL, "c", 20, 300, 0.0, 101.0).capacity == 4000.0


def test_nothing_is_allowed_once_they_are_spent_or_without_room_or_time() -> None:
    one = BurstTokens(500.0, 2000.0, 100.0)
    for _ in range(2):
        assert one.allow
        one = spend(one, "c", 10, 300, 350.0, one.at + 1)
    assert not one.allow
    assert not begin("c", 10, 100, 0.0).allow
    assert not spend(begin("c", 0, 300, 0.0), "c", 0, 300, 0.0, 0.0).allow


@given(st.text(min_size=1), st.floats(0, 1e6), st.floats(100, 1e4))
def test_the_first_tokens_follow_from_the_key_alone(
    key: str, period: float, percent: float
) -> None:
    one = begin(key, period, percent, 1.0)
    assert one == begin(key, period, percent, 1.0)
    assert 0 <= one.left <= one.capacity / 2


def test_keys_are_spread() -> None:
    found = sorted(spread(f"{n:064x}") for n in range(1000))
    assert 0 <= found[0] < 0.02
    assert 0.98 < found[-1] < 1
    assert 0.4 < found[500] < 0.6


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e5), st.floats(0, 19.9)), max_size=30))
def test_they_stay_within_the_capacity(steps: list[tuple[float | None, float]]) -> None:
    one = FULL
    for use, seconds in steps:
        one = spend(one, "c", 10, 300, use, one.at + seconds)
        assert -one.capacity <= one.left <= one.capacity


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 19))
def test_the_more_is_used_the_less_is_left(one: float, other: float, seconds: float) -> None:
    low, high = sorted((one, other))
    assert after(high, seconds).left <= after(low, seconds).left + 1e-6
