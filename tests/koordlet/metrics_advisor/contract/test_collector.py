"""Counters as rates."""

from __future__ import annotations

import pytest
from koordlet.metrics_advisor.contract.collector import CounterRates


@pytest.mark.parametrize(
    ("readings", "rates"),
    [
        ([(5, 1.0)], [None]),
        ([(5, 1.0), (8, 3.0), (8, 4.0)], [None, 1.5, 0.0]),
        ([(5, 1.0), (4, 2.0), (6, 3.0)], [None, None, 2.0]),
        ([(5, 1.0), (9, 21.0)], [None, 0.2]),
        ([(5, 1.0), (9, 21.1), (10, 22.1)], [None, None, 1.0]),
        ([(5, 1.0), (9, 1.0)], [None, None]),
        ([(5, 1.0), (9, 0.5)], [None, None]),
    ],
    ids=["first", "grown", "begun anew", "old enough", "silent for too long", "at once", "back"],
)
def test_a_rate(readings: list[tuple[float, float]], rates: list[float | None]) -> None:
    counters = CounterRates(20.0)
    assert [counters.rate("a", value, at) for value, at in readings] == rates
    assert counters.rate("b", 5, 1.0) is None
    grown = CounterRates(20.0)
    expected = [
        None if rate is None else value - readings[place - 1][0]
        for place, ((value, _), rate) in enumerate(zip(readings, rates, strict=True))
    ]
    assert [grown.growth("a", value, at) for value, at in readings] == expected


def test_what_was_silent_for_too_long_is_forgotten() -> None:
    counters = CounterRates(20.0)
    for at in range(30):
        counters.rate(at, 1, float(at))
    counters.forget(30.0)
    assert sorted(counters._before) == [*range(10, 30)]
