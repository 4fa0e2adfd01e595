"""Demand of a pod over time, if it were alone. No IO.

Curves have the unit of their user (cores, bytes) and can be added:
``Constant(2) + Spikes(height=4, every=600, lasts=20)``. Time is seconds of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from koord_prediction.histogram import Floats

DAY = 86400.0


class DemandCurve:
    """Something that has a value at each time; below 0 counts as 0, NaN as "does not run"."""

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        """The values at these times; the same ones for the same ``random``."""
        raise NotImplementedError

    def __add__(self, other: DemandCurve) -> DemandCurve:
        return Sum((self, other))


@dataclass(frozen=True, slots=True)
class Sum(DemandCurve):
    """Several at once."""

    parts: tuple[DemandCurve, ...]

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        whole = np.zeros(len(times))
        for part in self.parts:
            whole = whole + part.values(times, random)
        return whole


@dataclass(frozen=True, slots=True)
class Constant(DemandCurve):
    """Always the same."""

    level: float

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        return np.full(len(times), float(self.level))


@dataclass(frozen=True, slots=True)
class Sine(DemandCurve):
    """Around ``mean``, up and down by ``swing``; highest at ``peak_at`` seconds."""

    mean: float
    swing: float
    period: float = DAY
    peak_at: float = 0.0

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        turns = (times - self.peak_at) / self.period
        return np.asarray(self.mean + self.swing * np.cos(2 * np.pi * turns), np.float64)


@dataclass(frozen=True, slots=True)
class Ramp(DemandCurve):
    """From ``low`` at ``start`` seconds, in a straight line, to ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        return np.asarray(np.interp(times, [self.start, self.end], [self.low, self.high]))


@dataclass(frozen=True, slots=True)
class Spikes(DemandCurve):
    """``height`` for ``lasts`` seconds, each ``every`` seconds from ``first`` on; else 0.

    ``once`` is whether there is only the first.
    """

    height: float
    every: float
    lasts: float
    first: float = 0.0
    once: bool = False

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        since = times - self.first
        within = since if self.once else since % self.every
        return np.where((since >= 0) & (within < self.lasts), float(self.height), 0.0)


@dataclass(frozen=True, slots=True)
class Noise(DemandCurve):
    """Around 0 with a deviation of ``size``; remembers itself for some ``lasts`` seconds.

    Calculated per second of ``times``, whatever their step.
    """

    size: float
    lasts: float = 10.0

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        step = float(times[1] - times[0]) if len(times) > 1 else 1.0
        keep = float(np.exp(-step / self.lasts))
        fresh = random.normal(0.0, self.size * np.sqrt(1 - keep**2), len(times)).tolist()
        noise, now = [], 0.0
        for shock in fresh:
            now = keep * now + shock
            noise.append(now)
        return np.array(noise)


@dataclass(frozen=True)
class RecordedCurve(DemandCurve):
    """Points that were measured, straight lines between; NaN where nothing ran, as beyond them."""

    times: Floats
    points: Floats

    def values(self, times: Floats, random: np.random.RandomState) -> Floats:
        found = np.interp(times, self.times, self.points, left=np.nan, right=np.nan)
        return np.asarray(found, np.float64)
