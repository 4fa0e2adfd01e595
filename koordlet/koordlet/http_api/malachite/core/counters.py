"""Growth of counters between readings that clients ask for. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

_LEAST_SECONDS = 1.0
"""Katalyst's agent asks twice in a row; the growth in between would be noise."""
_MOST_SECONDS = 600.0
"""Age after which a reading is forgotten, and with it cgroups that are gone."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of counters that belong together, and the seconds that it took."""

    amounts: tuple[int, ...]
    seconds: float

    def rate(self, place: int) -> float:
        """Growth a second of one of them."""
        return self.amounts[place] / self.seconds


class CounterGrowths:
    """Counters at their last reading, by key."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, tuple[tuple[int, ...], float, Growth | None]] = {}

    def of(self, key: Hashable, counters: tuple[int, ...], steady: float) -> Growth | None:
        """Growth up to about now, ``None`` if it is not known yet.

        A reading within a second of the last one changes nothing. A single counter that went
        back (the kernel's iowait does) did not grow; if all did, the cgroup or CPU is another.
        """
        before = self._readings.get(key)
        if before is not None and steady - before[1] < _LEAST_SECONDS:
            return before[2]
        growth = None
        if before is not None and steady - before[1] <= _MOST_SECONDS:
            growth = _growth(before[0], counters, steady - before[1])
        self._readings[key] = counters, steady, growth
        return growth

    def forget(self, steady: float) -> None:
        """Drop what was not asked for lately."""
        limit = steady - _MOST_SECONDS
        self._readings = {
            key: reading for key, reading in self._readings.items() if reading[1] >= limit
        }


def _growth(before: tuple[int, ...], now: tuple[int, ...], seconds: float) -> Growth | None:
    if sum(now) < sum(before):
        return None
    amounts = tuple(max(new - old, 0) for new, old in zip(now, before, strict=True))
    return Growth(amounts, seconds)
