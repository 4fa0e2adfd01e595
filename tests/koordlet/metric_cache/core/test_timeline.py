"""Times of the wall clock find their place, whatever is done to the clock."""

from __future__ import annotations

import math

import pytest
from koordlet.metric_cache.core.timeline import (
    AHEAD_SECONDS,
    BELIEVED_AFTER,
    END_OF_TIME,
    LATE_SECONDS,
    Place,
    Timeline,
)

GRAIN = 10


def agree(timeline: Timeline, first: float) -> Place | None:
    """As many times as are believed; nothing is until the last one of them."""
    *doubted, last = (timeline.place(first + number) for number in range(BELIEVED_AFTER))
    assert doubted == [None] * len(doubted)
    return last


def started(first: float, *times: float) -> Timeline:
    """One whose beginning is long enough ago to be no step that might be undone."""
    timeline = Timeline(GRAIN)
    for at in (first - 100, first - 50, first, *times):
        assert timeline.place(at) == Place(at)
    return timeline


@pytest.mark.parametrize(("at", "is_one"), [(0.0, True), (-0.5, False), (END_OF_TIME, False)])
def test_what_cannot_be_a_time_has_no_place(at: float, is_one: bool) -> None:
    assert (Timeline(GRAIN).place(at) is not None) == is_one
    assert Timeline(GRAIN).place(math.nan) is None


@pytest.mark.parametrize("step", [-LATE_SECONDS, -1.0, 0.0, 1.0, AHEAD_SECONDS])
def test_a_clock_that_goes_on_is_believed(step: float) -> None:
    timeline = started(2000.0, 2000.0 + step)
    assert timeline.newest == 2000.0 + max(step, 0.0)


@pytest.mark.parametrize("step", [-LATE_SECONDS - 20, AHEAD_SECONDS + 1])
def test_one_that_was_set_is_doubted_and_then_goes_on_from_there(step: float) -> None:
    timeline = started(5000.0)
    last = BELIEVED_AFTER - 1
    ahead = round(step / GRAIN) * GRAIN
    assert agree(timeline, 5000.0 + step) == Place(5000.0 + step + last - ahead)
    assert timeline.ahead == ahead
    assert timeline.place(5000.0 + step + last + 1) == Place(5000.0 + step + last + 1 - ahead)


def test_doubted_times_have_to_agree_with_each_other() -> None:
    timeline = started(5000.0)
    for number in range(BELIEVED_AFTER - 1):
        assert timeline.place(90_000.0 + number) is None
    assert agree(timeline, 10_000.0) is not None
    assert timeline.ahead == 5000.0


def test_one_that_is_right_again_is_ahead_by_nothing() -> None:
    timeline = started(1000.0)
    agree(timeline, 5000.0)
    assert timeline.ahead == 4000.0
    assert agree(timeline, 1010.0) == Place(1010.0 + BELIEVED_AFTER - 1)
    assert timeline.ahead == 0.0


def test_a_step_that_was_wrong_is_undone() -> None:
    timeline = started(1000.0, 1500.0, 1501.0)
    assert agree(timeline, 1001.0) == Place(1001.0 + BELIEVED_AFTER - 1, undone=1000.0)
    assert timeline.ahead == 0.0


@pytest.mark.parametrize(
    "times",
    [
        # As long ago as a minute of samples, or no step at all.
        (1000.0, 1500.0, 1550.0, 1500.0 + LATE_SECONDS + 1),
        (1000.0, 1000.0 + LATE_SECONDS),
        (1000.0, 1030.0),
    ],
    ids=["long ago", "a minute", "half a minute"],
)
def test_nothing_else_is_undone(times: tuple[float, ...]) -> None:
    timeline = started(*times)
    first = times[-1] - LATE_SECONDS - 2 * GRAIN
    place = agree(timeline, first)
    assert place is not None
    assert place.undone is None
    assert timeline.ahead == first - times[-1]


def test_after_a_restart_a_later_clock_leaves_a_gap_and_an_earlier_one_none() -> None:
    for first, ahead in ((9000.0, 0.0), (100.0, -4900.0)):
        timeline = Timeline(GRAIN)
        assert not timeline.replay(5000.0, 0.0)
        place = agree(timeline, first)
        assert place == Place(first + BELIEVED_AFTER - 1 - ahead)
        assert timeline.ahead == ahead


def test_replayed_times_go_back_where_a_wrong_clock_was_undone() -> None:
    timeline = Timeline(GRAIN)
    assert not timeline.replay(5000.0, 0.0)
    assert not timeline.replay(5000.0 - LATE_SECONDS, 0.0)
    assert timeline.newest == 5000.0
    assert timeline.replay(5000.0 - LATE_SECONDS - 1, 30.0)
    assert (timeline.newest, timeline.ahead) == (5000.0 - LATE_SECONDS - 1, 30.0)
