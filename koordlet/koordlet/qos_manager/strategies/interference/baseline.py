"""Usual values of a series, and the distance of a point from them. No IO.

A running mean and variance, weighted exponentially, that outliers hardly move:

1. the first ``warm_up`` points are kept; the beginning are their median m and the mean square
   of what they are off it, each brought to within ``_CLIP`` · s, where s is 1.4826 times their
   median absolute deviation (the standard deviation, were they distributed normally);
2. from then on each point counts with weight a = 1 - 2^(-1/half_life), after it was
   brought to within ``_CLIP`` spreads of the mean (winsorised): mean += a·d,
   variance = (1 - a)·(variance + a·d²);
3. the spread is the standard deviation, but never less than a part of the mean and an
   absolute least: of what never moves, no movement would be small.

So an episode of minutes leaves what is usual alone, while a change that stays has become
usual after about a half-life.

Waits are distributed log-normally: what is usual of them is that of ln(value + offset), and a
spread is a factor. The offset keeps the noise of tiny values small.
"""

from __future__ import annotations

from math import exp, log
from statistics import median
from typing import NamedTuple

_CLIP = 3.0
_NORMAL = 1.4826


class BaselineParameters(NamedTuple):
    """Learning of a kind of series: counts in points, the least spread in its unit.

    With ``offset``, of its logarithm.
    """

    warm_up: int
    half_life: float
    least_spread: float = 0.0
    least_share: float = 0.0
    offset: float | None = None

    def scaled(self, value: float) -> float:
        """A value on the scale of means and spreads."""
        return value if self.offset is None else log(max(value, 0.0) + self.offset)


class Baseline(NamedTuple):
    """Usual values; ``first`` are the points so far while it is warming up."""

    first: tuple[float, ...] = ()
    mean: float = 0.0
    variance: float = 0.0
    known: bool = False

    def usual(self, manner: BaselineParameters) -> float:
        """Return the usual value."""
        return self.mean if manner.offset is None else exp(self.mean) - manner.offset

    def spread(self, manner: BaselineParameters) -> float:
        """Return the usual distance of points from the mean."""
        least = max(manner.least_spread, manner.least_share * abs(self.mean))
        return float(max(self.variance**0.5, least))

    def deviations(self, value: float, manner: BaselineParameters) -> float | None:
        """Return a value's spreads above the mean; ``None`` while warming up."""
        spread = self.spread(manner)
        if not self.known or spread <= 0:
            return None
        return (manner.scaled(value) - self.mean) / spread

    def after(self, value: float, manner: BaselineParameters) -> Baseline:
        """With one more point."""
        value = manner.scaled(value)
        if not self.known:
            return self._begun((*self.first, value), manner)
        reach = _CLIP * self.spread(manner)
        weight = 1 - 0.5 ** (1 / manner.half_life)
        off = max(min(value - self.mean, reach), -reach)
        variance = (1 - weight) * (self.variance + weight * off * off)
        return self._replace(mean=self.mean + weight * off, variance=variance)

    def _begun(self, first: tuple[float, ...], manner: BaselineParameters) -> Baseline:
        if len(first) < manner.warm_up:
            return Baseline(first)
        middle = median(first)
        off = [abs(value - middle) for value in first]
        usual = _NORMAL * median(off)
        variance = sum(min(distance, _CLIP * usual) ** 2 for distance in off) / len(off)
        return Baseline((), middle, max(variance, usual * usual), known=True)
