"""Averages that say enough of a window."""

from __future__ import annotations

import pytest
from koordlet.qos_manager.core.strategy import WindowStats
from koordlet.qos_manager.eviction.claims.measurements import average, covered

from tests.support.views import FakeHistory, FakeLatest, stats, view

USAGE, REQUEST = ("node_be", "cpu", "usage"), ("node_be", "cpu", "request")


def window(points: int) -> WindowStats:
    return stats(9.0, points=points, seconds=points - 1)


@pytest.mark.parametrize(
    ("newest", "found", "seconds", "expected"),
    [
        (2.0, window(10), None, 2.0),
        (2.0, window(10), 0.5, 2.0),
        (2.0, window(10), 1, 2.0),
        (2.0, window(10), 10, 9.0),
        (2.0, window(9), 30, None),  # less than a third of the window
        (2.0, window(10), 30, 9.0),
        (None, window(30), 30, None),  # no new value
        (2.0, None, 30, None),
    ],
)
def test_a_window_is_averaged_where_enough_of_it_is_known(
    newest: float | None, found: WindowStats | None, seconds: float | None, expected: float | None
) -> None:
    history = FakeHistory({REQUEST: stats(5.0)} | ({USAGE: found} if found else {}))
    values = {REQUEST: 5.0} | ({} if newest is None else {USAGE: newest})
    seen = view(latest=FakeLatest(values), history=history)
    assert average(seen, *USAGE, seconds=seconds) == expected


def test_a_point_stands_for_the_time_between_points() -> None:
    # In the last two cases a gap of minutes is unknown, and the clock was set back.
    windows = (0, 0), (1, 0), (11, 10), (3, 10), (2, 300), (5, -20)
    found = [
        covered(stats(1.0, points=points, seconds=seconds), 1.0) for points, seconds in windows
    ]
    assert found == [0.0, 1.0, 11.0, 15.0, 20.0, 0.0]
