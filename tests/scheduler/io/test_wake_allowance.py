"""Parked pods get their share of time, and no more."""

from __future__ import annotations

from koord_scheduler.io.wake_allowance import MOST_SECONDS, SHARE, WakeAllowance


class Clock:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_share_of_time_is_saved_and_spent() -> None:
    clock = Clock()
    allowance = WakeAllowance(clock)
    spent = 0.0
    for _ in range(1000):
        clock.now += 0.05
        allowance.begin()
        while allowance.may_look():
            clock.now += 0.003
            spent += 0.003
        allowance.end()
    assert 0.9 * SHARE < spent / (clock.now - 100.0) < 1.1 * SHARE


def test_what_was_tried_in_vain_counts() -> None:
    clock = Clock()
    allowance = WakeAllowance(clock)
    allowance.spend(10 * MOST_SECONDS)
    allowance.begin()
    assert not allowance.may_look()
    assert not allowance.may_retry()
    allowance.begin(least=0.004)
    assert allowance.may_look(), "nothing else is to be done"
    clock.now += 9 * MOST_SECONDS / SHARE + 0.01
    allowance.begin()
    assert [allowance.may_retry() for _ in range(2)] == [True, False]
