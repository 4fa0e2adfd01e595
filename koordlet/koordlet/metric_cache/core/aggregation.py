"""From points to numbers: what the aggregations are, for many series at once. No IO.

Percentiles follow Koordinator: of n ascending values that with index
max(int(float32(n) · p) - 1, 0). A point that stands for several (the average of a
minute) counts as often as the points it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from koordlet.metric_cache.core.interface import AggregatedSeries, Aggregation
from koordlet.metric_cache.core.samples import Series

_PERCENTILES = {
    Aggregation.P50: np.float32(0.5),
    Aggregation.P90: np.float32(0.9),
    Aggregation.P95: np.float32(0.95),
    Aggregation.P99: np.float32(0.99),
}

Rows = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PointBlock:
    """Points of some series: a row each, a column a time, ascending; NaN where there is none.

    ``lows``, ``highs`` and ``weights`` say of which least, greatest and how many points a
    value is the average; ``None`` where each stands for itself.
    """

    series: tuple[Series, ...]
    times: NDArray[np.float64]
    values: NDArray[np.float32]
    lows: NDArray[np.float32] | None = None
    highs: NDArray[np.float32] | None = None
    weights: NDArray[np.float32] | None = None

    def taken(self, rows: Flags) -> PointBlock:
        """Only some rows."""
        series = tuple(labels for labels, keep in zip(self.series, rows, strict=True) if keep)
        parts = (self.values, self.lows, self.highs, self.weights)
        return PointBlock(series, self.times, *(None if p is None else p[rows] for p in parts))  # type: ignore[arg-type]

    def together(self) -> PointBlock:
        """All series as one row."""

        def flat(part: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
            return None if part is None else part.T.reshape(1, -1)

        return PointBlock(
            (Series("", ()),),
            np.repeat(self.times, len(self.series)),
            self.values.T.reshape(1, -1),
            flat(self.lows),
            flat(self.highs),
            flat(self.weights),
        )


def aggregate_block(block: PointBlock, aggregations: Sequence[Aggregation]) -> AggregatedSeries:
    """The aggregations of each series that has points at all."""
    there: Flags = ~np.isnan(block.values)
    some: Flags = np.logical_or.reduce(there, axis=1)
    if not some.all():
        block, there = block.taken(some), there[some]
    return _Table(block, there).aggregate(aggregations)


class _Table:
    """The work on one block, none of whose rows is empty."""

    def __init__(self, block: PointBlock, there: Flags) -> None:
        self._block = block
        self._there = there
        width = there.shape[1]
        rows = there.shape[0]
        # argmax of nothing is an error, even for no rows.
        none = np.zeros(rows, np.intp)
        self._first = there.argmax(axis=1) if width else none
        self._last = width - 1 - there[:, ::-1].argmax(axis=1) if width else none
        self._count = self._counts()

    def aggregate(self, aggregations: Sequence[Aggregation]) -> AggregatedSeries:
        return AggregatedSeries(
            self._block.series,
            {name: self._column(name) for name in aggregations},
            self._count,
            self._block.times[self._first],
            self._block.times[self._last],
        )

    def _counts(self) -> Counts:
        weights = self._block.weights
        if weights is None:
            return np.asarray(np.count_nonzero(self._there, axis=1), np.int64)
        summed = np.add.reduce(weights, axis=1, dtype=np.float64, where=self._there)
        return np.asarray(summed, np.int64)

    def _column(self, name: Aggregation) -> Rows:
        block = self._block
        values = block.values
        if name is Aggregation.COUNT:
            return self._count.astype(np.float64)
        if not values.size:
            return np.empty(0)
        if name is Aggregation.AVG:
            return self._average()
        if name is Aggregation.LAST:
            found = values[np.arange(len(values)), self._last]
        elif name is Aggregation.MIN:
            found = np.fmin.reduce(values if block.lows is None else block.lows, axis=1)
        elif name is Aggregation.MAX:
            found = np.fmax.reduce(values if block.highs is None else block.highs, axis=1)
        else:
            found = self._percentile(_PERCENTILES[name])
        return np.asarray(found, np.float64)

    def _average(self) -> Rows:
        values, weights = self._block.values, self._block.weights
        parts = values if weights is None else values.astype(np.float64) * weights
        summed: Rows = np.add.reduce(parts, axis=1, dtype=np.float64, where=self._there)
        return np.asarray(summed / self._count, np.float64)

    def _percentile(self, share: np.float32) -> NDArray[np.float32]:
        index = (self._count.astype(np.float32) * share).astype(np.int64) - 1
        index = np.maximum(index, 0)
        ascending, cumulated = self._ascending
        if cumulated is not None:
            index = np.count_nonzero(cumulated <= index[:, None], axis=1)
        return np.asarray(ascending[np.arange(len(index)), index], np.float32)

    @cached_property
    def _ascending(self) -> tuple[NDArray[np.float32], Counts | None]:
        """Values in order, NaN last; and how many points there are up to each."""
        values, weights = self._block.values, self._block.weights
        if weights is None:
            return np.sort(values, axis=1), None
        order = np.argsort(values, axis=1)
        ordered = np.take_along_axis(np.where(self._there, weights, 0), order, axis=1)
        cumulated = np.cumsum(ordered, axis=1, dtype=np.int64)
        return np.take_along_axis(values, order, axis=1), cumulated
