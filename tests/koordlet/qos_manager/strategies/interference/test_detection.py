"""Episodes: when they begin and end, and what is forgotten."""

from __future__ import annotations

import pytest
from koordlet.qos_manager.strategies.interference.antagonist import Antagonist
from koordlet.qos_manager.strategies.interference.baseline import BaselineParameters
from koordlet.qos_manager.strategies.interference.detection import (
    WINDOW,
    OutlierLimits,
    SeriesWatch,
)
from koordlet.qos_manager.strategies.interference.suspicion import CPU

MANNER = BaselineParameters(warm_up=5, half_life=100, least_spread=1.0)
LIMITS = OutlierLimits(deviations=3.0, points=3, floor=10.0)


class Series:
    """Points ten seconds apart."""

    def __init__(self) -> None:
        self.watch = SeriesWatch()
        self.steady = 0.0
        self.see(*[5.0] * 8)

    def see(
        self, *values: float, seconds: float = 10.0, own_use: float | None = None
    ) -> list[bool]:
        """Whether there is an episode after each of these points."""
        found = []
        for value in values:
            self.steady += seconds
            uses = {CPU.kind: {"u": value}}
            self.watch = self.watch.after(
                value, 1e9 + self.steady, self.steady, uses, MANNER, LIMITS, own_use
            )
            found.append(self.watch.episode is not None)
        return found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([20, 20, 5, 20, 20, 5], [False] * 6),
        ([20, 20, 20, 5, 5, 20, 5, 5, 5, 20], [False] * 2 + [True] * 6 + [False] * 2),
        ([9.9] * 4, [False] * 4),
    ],
    ids=["too few in a row", "begins and ends", "below the floor"],
)
def test_so_many_outliers_in_a_row_are_an_episode(
    values: list[float], expected: list[bool]
) -> None:
    assert Series().see(*values) == expected


def test_a_pod_that_waits_because_it_uses_more_itself_is_no_victim() -> None:
    series = Series()
    series.see(*[5] * 20, own_use=2.0)
    assert series.see(*[20] * 9, own_use=3.0) == [False] * 9
    assert series.see(20, 20, 20, own_use=2.2) == [False, False, True]
    assert series.see(20, own_use=3.0) == [True], "it began without"


def test_its_numbers_are_the_newest_outlier_s_and_its_cause_stays() -> None:
    series = Series()
    series.see(20, 20, 20)
    episode = series.watch.episode
    assert episode is not None
    blamed = Antagonist("job", CPU, 0.8, 4.0)
    series.watch = series.watch._replace(episode=episode._replace(blamed=blamed, own=0.0))
    series.see(30)
    newer = series.watch.episode
    assert newer is not None
    assert (newer.value, newer.blamed) == (30, blamed)
    assert newer.deviations > 20
    series.see(5)
    assert series.watch.episode == newer


def test_while_it_warms_up_there_is_none() -> None:
    series = Series()
    series.watch = SeriesWatch()
    assert series.see(90, 90, 90, 90) == [False] * 4


def test_the_same_point_again_is_nothing_new_and_a_clock_that_jumps_back_does_no_harm() -> None:
    series = Series()
    series.see(20)
    before = series.watch
    args = (20.0, before.seen_at, before.steady, {CPU.kind: {"u": 1.0}}, MANNER, LIMITS)
    assert before.after(*args) is before
    series.see(20)
    assert series.watch.after(20, 5.0, series.steady + 10, {}, MANNER, LIMITS).episode is not None


def test_points_are_few_and_the_newest() -> None:
    series = Series()
    series.see(*[6.0] * 100)
    assert (len(series.watch.points), series.watch.points[-1][1]) == (
        WINDOW,
        {CPU.kind: {"u": 6.0}},
    )


def test_after_a_long_silence_only_what_is_usual_is_known() -> None:
    series = Series()
    series.see(20, 20, 20)
    kept = series.watch.unless_silent(series.steady + 300)
    assert kept is series.watch
    gone = series.watch.unless_silent(series.steady + 301)
    assert (gone.episode, gone.points, gone.high) == (None, (), 0)
    assert gone.baseline == series.watch.baseline
    args = (series.watch.seen_at, series.steady + 301, {}, MANNER, LIMITS)
    assert series.watch.after(20, *args) == gone
    assert series.see(20, 20, seconds=400) == [False, False]
