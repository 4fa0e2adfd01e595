"""Decaying histograms of many entities at once: one matrix, a row an entity.

The buckets and weights are Koordinator's, and the Vertical Pod Autoscaler's before it:
bucket n starts at first·(rⁿ - 1)/(r - 1), r = 1.05, and the last has no end. A sample at
time t weighs 2^((t - reference)/halflife), which makes all earlier ones decay without
touching them. When the exponent would exceed 100 the row's reference moves to t and its
weights are scaled accordingly, which no percentile notices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

EPSILON = 1e-4
"""A bucket that weighs less is empty."""

_TIE = 1 - 1e-9
"""Nine of ten samples reach 90%, however their sum is rounded."""

_RATIO = 1.05
_MAX_EXPONENT = 100
_YEAR_1 = -62135596800.0
"""Koordinator's references are whole halflives after 0001-01-01T00:00:00Z, in our seconds."""


@dataclass(frozen=True)
class Buckets:
    """Starts of histogram buckets in the resource's unit; the last is ``maximum`` or above."""

    first: float
    maximum: float
    starts: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        grown = self.maximum * (_RATIO - 1) / self.first + 1
        count = math.ceil(math.log(grown) / math.log(_RATIO)) + 1
        starts = self.first * (_RATIO ** np.arange(count) - 1) / (_RATIO - 1)
        object.__setattr__(self, "starts", starts)

    @property
    def count(self) -> int:
        """Number of buckets."""
        return len(self.starts)

    def find(self, values: Floats) -> Rows:
        """The bucket each value falls in: the first for negative ones, the last for huge ones."""
        found = np.searchsorted(self.starts, values, side="right") - 1
        return np.maximum(found, 0)


CPU = Buckets(0.025, 1024)
"""Cores."""

MEMORY = Buckets(5 * 2**20, 2**41)
"""Bytes."""


class Histograms:
    """Rows of weights; the caller assigns rows, and clears them before use.

    ``halflife`` is in seconds, times are seconds since the epoch.
    """

    def __init__(self, buckets: Buckets, halflife: float, rows: int) -> None:
        self.buckets = buckets
        self.halflife = halflife
        self._weights = np.zeros((rows, buckets.count))
        self._references = np.zeros(rows)

    def grow(self, rows: int) -> None:
        """Make room for so many rows."""
        more = rows - len(self._references)
        self._weights = np.pad(self._weights, ((0, more), (0, 0)))
        self._references = np.pad(self._references, (0, more))

    def clear(self, row: int) -> None:
        """Forget a row's samples."""
        self._weights[row] = 0.0

    def add(self, rows: Rows, values: Floats, at: float) -> None:
        """One sample for each of ``rows``; a row may be in there more than once."""
        self._shift(np.unique(rows), at)
        exponents = (at - self._references[rows]) / self.halflife
        np.add.at(self._weights, (rows, self.buckets.find(values)), np.exp2(exponents))

    def percentiles(self, rows: Rows, fractions: Sequence[float]) -> Floats:
        """One line a row, one column a fraction (0.95, 1.0: the greatest); NaN for empty rows.

        A percentile is the end of its bucket, so at most 5% and one first bucket above
        the sample it stands for; of the last bucket it is the start.
        """
        weights = self._weights[rows]
        filled = weights >= EPSILON
        first = filled.argmax(axis=1)
        last = self.buckets.count - 1 - filled[:, ::-1].argmax(axis=1)
        sums = weights.cumsum(axis=1)
        found = np.empty((len(rows), len(fractions)))
        for column, fraction in enumerate(fractions):
            reached = (sums < fraction * _TIE * sums[:, -1:]).sum(axis=1)
            # The greatest is the greatest, also where it has all but decayed.
            bucket = last if fraction >= 1 else np.clip(reached, first, last)
            found[:, column] = self.buckets.starts[np.minimum(bucket + 1, self.buckets.count - 1)]
        found[~filled.any(axis=1)] = np.nan
        return found

    def weights(self, row: int) -> tuple[float, Floats]:
        """A row's reference time, and a copy of its weights."""
        return float(self._references[row]), self._weights[row].copy()

    def put(self, row: int, reference: float, weights: Floats) -> None:
        """Take over what ``weights`` gave of a row."""
        self._references[row] = reference
        self._weights[row] = weights

    def _shift(self, rows: Rows, at: float) -> None:
        """New references for rows that are empty, or whose exponent grew too large."""
        empty = ~(self._weights[rows] >= EPSILON).any(axis=1)
        late = at - self._references[rows] > _MAX_EXPONENT * self.halflife
        moved = rows[empty | late]
        if not len(moved):
            return
        reference = self._rounded(at)
        exponents = (self._references[moved] - reference) / self.halflife
        # Only downwards: an empty row may have any reference, and 0 times infinity is not a number.
        self._weights[moved] *= np.exp2(np.minimum(exponents, 0.0))[:, None]
        self._references[moved] = reference

    def _rounded(self, at: float) -> float:
        return math.floor((at - _YEAR_1) / self.halflife + 0.5) * self.halflife + _YEAR_1
