"""Evictions that do not lower what they are for stop."""

from __future__ import annotations

import pytest
from koordlet.qos_manager.eviction.policy.effect import (
    MOST_IN_VAIN,
    PAUSE_SECONDS,
    EvictionEffect,
)

WHO = ("s", "BEMemoryEvict", "memory")


def evict(effect: EvictionEffect, need: float, after: float | None, now: float) -> bool:
    """A pod goes that frees 4; whether that was the last one."""
    effect.book(WHO, need, "a", 4.0)
    assert effect.observe({WHO: need}, {"a"}, now) == ()
    needs = {} if after is None else {WHO: after}
    return effect.observe(needs, (), now + 1) == (WHO,)


@pytest.mark.parametrize("after", [10.0, 9.0, 11.0])
def test_after_some_in_vain_there_is_a_pause_and_then_one_at_a_time(after: float) -> None:
    effect = EvictionEffect()
    stopped = [evict(effect, 10.0, after, 10.0 * number) for number in range(MOST_IN_VAIN)]
    assert stopped == [False] * (MOST_IN_VAIN - 1) + [True]
    now = 10.0 * MOST_IN_VAIN
    assert effect.paused(now) == {WHO: PAUSE_SECONDS + 1 - 10}
    assert effect.paused(now + PAUSE_SECONDS) == {}
    assert evict(effect, 10.0, after, now + PAUSE_SECONDS)


@pytest.mark.parametrize(
    ("need", "after"), [(10.0, 6.0), (10.0, 8.0), (1.0, 0.4), (1.0, None)], ids=str
)
def test_what_lowers_the_need_goes_on(need: float, after: float | None) -> None:
    effect = EvictionEffect()
    for number in range(MOST_IN_VAIN - 1):
        assert not evict(effect, 10.0, 10.0, 10.0 * number)
    assert not evict(effect, need, after, 90.0)
    for number in range(10, 10 + MOST_IN_VAIN - 1):
        assert not evict(effect, 10.0, 10.0, 10.0 * number)


def test_neither_a_refused_eviction_nor_pressure_counts() -> None:
    effect, pressure = EvictionEffect(), ("s", "ThresholdEvict", "memory.pressure")
    for number in range(2 * MOST_IN_VAIN):
        effect.book(WHO, 10.0, "a", 4.0)
        effect.refused("a")
        effect.book(pressure, 1.0, "b", 1.0)
        assert effect.observe({WHO: 10.0, pressure: 1.0}, (), float(number)) == ()
    assert effect.paused(0.0) == {}
