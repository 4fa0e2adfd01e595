"""Katalyst's sizes of transparent memory offloading: arithmetic only, no IO.

Of ``pkg/agent/sysadvisor/plugin/qosaware/resource/memory/plugin/memory_offloading.go``; amounts
are bytes, pressure is percent as the kernel writes it, other parts are 0 to 1.
"""

from __future__ import annotations

from typing import NamedTuple

GROWTH = 1.05
PROBED = 0.1
"""Part of a pod's inactive memory that is tried first."""
LEAST_CACHE = 1 << 20
CACHE_FACTOR = 2

BY_PRESSURE = "by pressure = max(0, 1 − pressure / target) × share / 100 × use"
BY_REFAULT = (
    "accuracy = 1 − activated / reclaimed where reclaimed > 0 and scanned > 0 else 1; "
    "efficiency = reclaimed / scanned where reclaimed > 0 and scanned > 0 else 1; "
    "is too much = 100 × accuracy < accuracy target or 100 × efficiency < efficiency target; "
    "by refault = max(last × accuracy, 0) where is too much "
    f"else min(max({GROWTH} × last, {PROBED} × inactive), share / 100 × use)"
)
BY_CACHE = (
    f"by cache = max({CACHE_FACTOR} × (cache − mapped), {LEAST_CACHE}) "
    f"where cache ≥ {CACHE_FACTOR} × mapped else 0"
)


class Refaults(NamedTuple):
    """Pages over the same time: scanned, reclaimed, and read again because it was too soon."""

    scanned: float
    reclaimed: float
    activated: float

    @property
    def accuracy(self) -> float:
        """Part of what was reclaimed that was not missed; below 0 if more came back than went."""
        return 1 - self.activated / self.reclaimed if self._any else 1.0

    @property
    def efficiency(self) -> float:
        """Part of what was scanned that could be reclaimed."""
        return self.reclaimed / self.scanned if self._any else 1.0

    @property
    def _any(self) -> bool:
        return self.reclaimed > 0 and self.scanned > 0


def by_pressure(pressure: float, target: float, share: float, use: float) -> float:
    """The nearer the pressure is to the target, the less."""
    return max(0.0, 1 - pressure / target) * share * use


def by_refault(
    last: float,
    inactive: float,
    use: float,
    share: float,
    refaults: Refaults,
    accuracy_target: float,
    efficiency_target: float,
) -> float:
    """A little more than the last time, as long as that was not missed."""
    if refaults.accuracy < accuracy_target or refaults.efficiency < efficiency_target:
        return max(last * refaults.accuracy, 0.0)
    return min(max(GROWTH * last, PROBED * inactive), share * use)


def by_cache(cache: float, mapped: float) -> float:
    """The most without swap, where page cache is all that can go; 0 if most of it is mapped."""
    if cache < CACHE_FACTOR * mapped:
        return 0.0
    return max(CACHE_FACTOR * (cache - mapped), float(LEAST_CACHE))
