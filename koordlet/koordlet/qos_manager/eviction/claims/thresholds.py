"""Thresholds that a NodeSLO sets for evictions, checked before they are gone by. No IO.

What is missing or makes no sense switches its rule off, and the message says which field it is:
a rule that is silently off is found out when a node has run out of memory.
"""

from __future__ import annotations

from dataclasses import dataclass

_SECTION = "NodeSLO resourceUsedThresholdWithBE"
_GAP = 2
"""Percent below the threshold down to which is freed, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class ThresholdBand:
    """From ``threshold`` percent on is evicted, until ``lower`` percent are left."""

    threshold: int
    lower: int


def enabled(enable: bool) -> None:
    """Check that the section is switched on.

    Raises:
        ValueError: it is not.
    """
    if not enable:
        raise ValueError(f"{_SECTION}.enable is not true")


def required(value: int | None, field: str) -> int:
    """A field without which a rule cannot work.

    Raises:
        ValueError: it is not set.
    """
    if value is None:
        raise ValueError(f"{_SECTION}.{field} is not set")
    return value


def within(value: int | None, field: str, low: int, high: int) -> int:
    """A required field with bounds.

    Raises:
        ValueError: it is not set, or not from ``low`` to ``high``.
    """
    found = required(value, field)
    if not low <= found <= high:
        raise ValueError(f"{_SECTION}.{field} is {found}; expected {low} to {high}")
    return found


def use_band(
    threshold: int | None, lower: int | None, field: str, lower_field: str
) -> ThresholdBand:
    """Thresholds in percent of a capacity; without a lower one it is 2 below, but not below 0.

    A threshold of 0 is refused: every node is above it.

    Raises:
        ValueError: there is no threshold, or the lower one is not below it.
    """
    top = within(threshold, field, 1, 100)
    return _band(top, max(top - _GAP, 0) if lower is None else lower, field, lower_field)


def promise_band(
    threshold: int | None, lower: int | None, field: str, lower_field: str
) -> ThresholdBand:
    """Thresholds in percent of what the Node has to allocate; both are required.

    Raises:
        ValueError: one is missing, or the lower one is not below the other.
    """
    return _band(required(threshold, field), required(lower, lower_field), field, lower_field)


def _band(threshold: int, lower: int, field: str, lower_field: str) -> ThresholdBand:
    if not 0 <= lower < threshold:
        raise ValueError(
            f"{_SECTION}.{lower_field} is {lower}; "
            f"expected at least 0 and less than {threshold} ({field})"
        )
    return ThresholdBand(threshold, lower)
