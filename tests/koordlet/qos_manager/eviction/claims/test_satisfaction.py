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

KOORDINATOR = SatisfactionBounds(lower=30, upper=40, busy=90)


@pytest.mark.parametrize(
    ("pods", "busy", "expected"),
    [
        # (usage, request, limit); Koordinator's own examples, upper 40 and lower 30 percent.
        ((20_000, 0, 0), 90, 0),
        ((10_000, 0, 20_000), 90, 0),
        ((19_000, 0, 20_000), 90, 0),
        ((19_000, 40_000, 20_000), 90, 0),
        ((9500, 50_000, 10_000), 90, 10_000),
        ((13_000, 50_000, 14_000), 90, 6000),
        ((5000, 50_000, 10_000), 90, 0),
        ((10_000, 50_000, 11_000), 90, 9000),
        ((6000, 50_000, 10_000), 50, 10_000),
        ((4000, 50_000, 10_000), 50, 0),
        # At the lower bound it is too little; a little above it is not.
        ((15_000, 50_000, 15_000), 90, 5000),
        ((15_000, 50_000, 15_001), 90, 0),
        # With less than a core nobody asks how busy they are.
        ((0, 50_000, 999), 90, 19_001),
        ((0, 50_000, 1000), 90, 0),
        ((0, 50_000, 1), 90, 19_999),
    ],
)
def test_requests_are_brought_down_until_the_limit_satisfies_them(
    pods: tuple[float, float, float], busy: int, expected: float
) -> None:
    found = need(BestEffortCPU(*pods), KOORDINATOR._replace(busy=busy))
    assert found.need == pytest.approx(expected)
    assert found.what.startswith("no eviction") == (expected == 0)


def test_where_the_bounds_are_equal_and_met_there_is_enough() -> None:
    assert need(
        BestEffortCPU(300, 1000, 300), SatisfactionBounds(30, 30, 90)
    ) == SatisfactionShortage(0.0, "no eviction: best-effort pods have CPU enough")


def test_both_must_say_that_there_is_a_need() -> None:
    nothing, some, more = (
        SatisfactionShortage(0.0, "no"),
        SatisfactionShortage(1.0, "some"),
        SatisfactionShortage(2.0, "more"),
    )
    assert smaller(nothing, more) == smaller(more, nothing) == nothing
    assert smaller(some, more) == smaller(more, some) == some


amounts = st.floats(0, 1e9)


@given(
    amounts,
    amounts,
    amounts,
    st.integers(1, 60).flatmap(
        lambda low: st.builds(
            SatisfactionBounds, st.just(low), st.integers(low, 99), st.integers(0, 100)
        )
    ),
)
def test_need_is_never_negative_and_leaves_requests_that_are_satisfied(
    usage: float, request: float, limit: float, bounds: SatisfactionBounds
) -> None:
    found = need(BestEffortCPU(usage, request, limit), bounds)
    assert 0 <= found.need <= request
    if found.need > 0:
        more_use = need(BestEffortCPU(usage * 2, request, limit), bounds)
        assert more_use == found
