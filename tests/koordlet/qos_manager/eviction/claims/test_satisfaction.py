"""Eviction because best-effort pods get too little CPU: the arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.eviction.claims.satisfaction import (
    BestEffortCPU,
    SatisfactionBounds,
    SatisfactionShortage,
    need,
    smaller,
)


@pytest.mark.parametrize(
    ("pods", "bounds", "expected"),
    [
        # (usage, request, limit), (lower, upper, busy); Koordinator's own examples.
        ((20_000, 0, 0), (30, 40, 90), 0),
        ((10_000, 0, 20_000), (30, 40, 90), 0),
        ((19_000, 40_000, 20_000), (30, 40, 90), 0),
        ((9500, 50_000, 10_000), (30, 40, 90), 10_000),
        ((13_000, 50_000, 14_000), (30, 40, 90), 6000),
        ((5000, 50_000, 10_000), (30, 40, 90), 0),
        ((6000, 50_000, 10_000), (30, 40, 50), 10_000),
        ((4000, 50_000, 10_000), (30, 40, 50), 0),
        # At the lower bound it is too little; a little above it is not.
        ((15_000, 50_000, 15_000), (30, 40, 90), 5000),
        ((15_000, 50_000, 15_001), (30, 40, 90), 0),
        # With less than a core it does not count how busy they are.
        ((0, 50_000, 999), (30, 40, 90), 19_001),
        ((0, 50_000, 1000), (30, 40, 90), 0),
        ((0, 50_000, 1), (30, 40, 90), 19_999),
        ((300, 1000, 300), (30, 30, 90), 0),
    ],
)
def test_requests_are_brought_down_until_the_limit_satisfies_them(
    pods: tuple[float, float, float], bounds: tuple[int, int, int], expected: float
) -> None:
    found = need(BestEffortCPU(*pods), SatisfactionBounds(*bounds))
    assert found.need == pytest.approx(expected)
    assert found.what.startswith("no eviction") == (expected == 0)


def test_both_must_say_that_there_is_a_need() -> None:
    nothing, some, more = (SatisfactionShortage(float(each), str(each)) for each in range(3))
    assert smaller(nothing, more) == smaller(more, nothing) == nothing
    assert smaller(some, more) == smaller(more, some) == some


amounts = st.floats(0, 1e9)
bounds = st.integers(1, 60).flatmap(
    lambda low: st.builds(
        SatisfactionBounds, st.just(low), st.integers(low, 99), st.integers(0, 100)
    )
)


@given(amounts, amounts, amounts, bounds)
def test_need_is_never_negative_and_leaves_requests_that_are_satisfied(
    usage: float, request: float, limit: float, bounds: SatisfactionBounds
) -> None:
    found = need(BestEffortCPU(usage, request, limit), bounds)
    assert 0 <= found.need <= request
    if found.need > 0:
        assert need(BestEffortCPU(usage * 2, request, limit), bounds) == found
