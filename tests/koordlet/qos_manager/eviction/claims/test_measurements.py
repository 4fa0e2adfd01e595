"""Averages that say enough of a window."""

from __future__ import annotations

import pytest
from koordlet.qos_manager.eviction.claims.measurements import average, covered

from tests.support.views import FakeHistory, FakeLatest, stats, view

CPU = ("node_cpu_usage",)


@pytest.mark.parametrize("seconds", [None, 0.5, 1])
def test_without_a_window_the_newest_value_counts(seconds: float | None) -> None:
    history = FakeHistory({CPU: stats(9.0)})
    seen = view(latest=FakeLatest({CPU: 2.0}), history=history)
    assert average(seen, *CPU, seconds=seconds) == 2.0


def test_a_window_is_averaged() -> None:
    history = FakeHistory({CPU: stats(9.0, points=10, seconds=9)})
    assert average(view(latest=FakeLatest({CPU: 2.0}), history=history), *CPU, seconds=10) == 9.0


def test_labels_tell_series_apart() -> None:
    usage, request = ("node_be", "cpu", "usage"), ("node_be", "cpu", "request")
    history = FakeHistory({usage: stats(1.0), request: stats(2.0)})
    seen = view(latest=FakeLatest({usage: 5.0, request: 5.0}), history=history)
    assert average(seen, *request, seconds=10) == 2.0


@pytest.mark.parametrize(("points", "expected"), [(9, None), (10, 4.0), (30, 4.0)])
def test_points_for_less_than_a_third_of_the_window_say_nothing(
    points: int, expected: float | None
) -> None:
    history = FakeHistory({CPU: stats(4.0, points=points, seconds=points - 1)})
    seen = view(latest=FakeLatest({CPU: 4.0}), history=history)
    assert average(seen, *CPU, seconds=30) == expected


def test_a_window_without_a_new_value_is_out_of_date() -> None:
    seen = view(latest=FakeLatest(), history=FakeHistory({CPU: stats(9.0, points=30, seconds=29)}))
    assert average(seen, *CPU, seconds=30) is None


def test_a_window_without_points_says_nothing() -> None:
    assert average(view(latest=FakeLatest({CPU: 1.0})), *CPU, seconds=30) is None


@pytest.mark.parametrize(
    ("points", "seconds", "expected"),
    [
        (0, 0, 0.0),
        (1, 0, 1.0),
        (11, 10, 11.0),
        (3, 10, 15.0),
        # A gap of minutes is none of which anybody knows something.
        (2, 300, 20.0),
        # The clock was set back.
        (5, -20, 0.0),
    ],
)
def test_a_point_stands_for_the_time_between_points(
    points: int, seconds: float, expected: float
) -> None:
    assert covered(stats(1.0, points=points, seconds=seconds), 1.0) == expected
