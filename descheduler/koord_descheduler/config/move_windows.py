"""Limits at certain times: a cron schedule opens a window, a duration closes it. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError
from koord_model import duration
from koord_scheduler.arguments.problems import problem, refuse_if

from koord_descheduler.config.component_config import MoveWindow
from koord_descheduler.planner.budgets import MoveLimit, of_all

_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def window_limits(windows: tuple[MoveWindow, ...]) -> Iterator[MoveLimit]:
    """A limit for each window, of all moves of a round.

    Raises:
        SchedulerConfigError: a schedule or a duration is none.
    """
    named = {f"moveWindows[{place}]": window for place, window in enumerate(windows)}
    refuse_if(line for at, window in named.items() for line in _problems(window, at))
    for at, window in named.items():
        name = f"{at} ({window.schedule} for {window.duration})"
        yield MoveLimit(name, window.max_moves, of_all, _is_open(window))


def _problems(window: MoveWindow, at: str) -> Iterator[str]:
    try:
        CronSim(window.schedule, _ANY_TIME)
    except CronSimError:
        expected = "five fields of cron in UTC, like 0 8 * * mon-fri"
        yield problem(f"{at}.schedule", window.schedule, expected)
    try:
        is_duration = duration.seconds(window.duration) > 0
    except ValueError:
        is_duration = False
    if not is_duration:
        yield problem(f"{at}.duration", window.duration, "a duration like 30m or 10h")


def _is_open(window: MoveWindow) -> Callable[[float], bool]:
    """Make the test of a window being open at a time, in seconds since the epoch."""
    length = timedelta(seconds=duration.seconds(window.duration))

    def is_open(now: float) -> bool:
        time = datetime.fromtimestamp(now, UTC)
        # The first opening that has not been closed again.
        return next(CronSim(window.schedule, time - length)) <= time

    return is_open
