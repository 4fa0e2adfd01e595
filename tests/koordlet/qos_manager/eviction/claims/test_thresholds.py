"""Thresholds of the NodeSLO: what is missing or makes no sense is named."""

from __future__ import annotations

import pytest
from koordlet.qos_manager.eviction.claims.thresholds import (
    ThresholdBand,
    enabled,
    promise_band,
    required,
    use_band,
    within,
)

SECTION = "NodeSLO resourceUsedThresholdWithBE"


def test_a_section_that_is_not_enabled_is_named() -> None:
    enabled(True)
    with pytest.raises(ValueError, match=f"{SECTION}.enable is not true"):
        enabled(False)


def test_a_missing_field_is_named() -> None:
    assert required(0, "a") == 0
    with pytest.raises(ValueError, match=f"{SECTION}.a is not set"):
        required(None, "a")


@pytest.mark.parametrize("value", [0, 61])
def test_a_field_out_of_bounds_is_named_with_its_value(value: int) -> None:
    assert [within(one, "a", 1, 60) for one in (1, 60)] == [1, 60]
    with pytest.raises(ValueError, match=f"{SECTION}.a is {value}; expected 1 to 60"):
        within(value, "a", 1, 60)


@pytest.mark.parametrize(
    ("threshold", "lower", "expected"),
    [
        (70, None, ThresholdBand(70, 68)),
        (70, 60, ThresholdBand(70, 60)),
        (1, None, ThresholdBand(1, 0)),
        (100, 0, ThresholdBand(100, 0)),
    ],
)
def test_without_a_lower_threshold_it_is_two_percent_below(
    threshold: int, lower: int | None, expected: ThresholdBand
) -> None:
    assert use_band(threshold, lower, "a", "b") == expected


@pytest.mark.parametrize(
    ("threshold", "lower", "message"),
    [
        (None, 60, "a is not set"),
        (0, None, "a is 0; expected 1 to 100"),
        (101, None, "a is 101; expected 1 to 100"),
        (70, 70, "b is 70; expected at least 0 and less than 70 \\(a\\)"),
        (70, 80, "b is 80; expected"),
        (70, -1, "b is -1; expected"),
    ],
)
def test_a_band_of_use_that_makes_no_sense_is_refused(
    threshold: int | None, lower: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=f"{SECTION}.{message}"):
        use_band(threshold, lower, "a", "b")


@pytest.mark.parametrize(
    ("threshold", "lower", "message"),
    [(None, 100, "a is not set"), (110, None, "b is not set"), (110, 110, "b is 110; expected")],
)
def test_a_band_of_promises_has_no_defaults(
    threshold: int | None, lower: int | None, message: str
) -> None:
    assert promise_band(110, 100, "a", "b") == ThresholdBand(110, 100)
    with pytest.raises(ValueError, match=f"{SECTION}.{message}"):
        promise_band(threshold, lower, "a", "b")
