"""Thresholds of the NodeSLO: what is missing or makes no sense is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from koordlet.qos_manager.eviction.claims.thresholds import (
    ThresholdBand,
    enabled,
    promise_band,
    required,
    use_band,
    within,
)


def use(threshold: int | None, lower: int | None) -> ThresholdBand:
    return use_band(threshold, lower, "a", "b")


def promise(threshold: int | None, lower: int | None) -> ThresholdBand:
    return promise_band(threshold, lower, "a", "b")


def test_what_makes_sense_is_taken() -> None:
    enabled(True)
    assert required(0, "a") == 0
    assert [within(one, "a", 1, 60) for one in (1, 60)] == [1, 60]
    assert use(70, None) == ThresholdBand(70, 68)
    assert use(70, 60) == ThresholdBand(70, 60)
    assert use(1, None) == ThresholdBand(1, 0)
    assert use(100, 0) == ThresholdBand(100, 0)
    assert promise(110, 100) == ThresholdBand(110, 100)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: enabled(False), "enable is not true"),
        (lambda: required(None, "a"), "a is not set"),
        (lambda: within(0, "a", 1, 60), "a is 0; expected 1 to 60"),
        (lambda: within(61, "a", 1, 60), "a is 61; expected 1 to 60"),
        (lambda: use(None, 60), "a is not set"),
        (lambda: use(0, None), "a is 0; expected 1 to 100"),
        (lambda: use(101, None), "a is 101; expected 1 to 100"),
        (lambda: use(70, 70), "b is 70; expected at least 0 and less than 70 \\(a\\)"),
        (lambda: use(70, 80), "b is 80; expected"),
        (lambda: use(70, -1), "b is -1; expected"),
        (lambda: promise(None, 100), "a is not set"),
        (lambda: promise(110, None), "b is not set"),
        (lambda: promise(110, 110), "b is 110; expected"),
    ],
)
def test_what_makes_none_is_refused_and_named(read: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"NodeSLO resourceUsedThresholdWithBE.{message}"):
        read()
