"""Koordlet's measurements of the node: newest values and windows of them. No IO.

Kinds, units and labels are those of koordlet's ``metric_kinds``. A value that was not measured is
NaN here and never kept. Of kinds that are kept each second the last hour is remembered, of those
each ten seconds the last twelve hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from koord_prediction.histogram import Floats
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.qos_manager.core.strategy import WindowStats

F = TypeVar("F")
Labels = tuple[str, ...]

_ROWS = {1: 3600, 5: 3600, 10: 4320}


class _Series:
    """All series of a kind: a row a moment, a column a series."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._columns: dict[Labels, int] = {}
        self._times = np.empty(2 * rows)
        self._values = np.full((2 * rows, 4), np.nan, np.float64)
        self._count = 0
        self._newest: list[float] = []
        self._seen: list[float] = []
        self._last: tuple[Sequence[Labels], list[int]] = ((), [])

    def put(self, at: float, steady: float, labels: Sequence[Labels], values: Floats) -> None:
        columns = self._columns_of(labels)
        if self._count and at < self._times[self._count - 1]:
            # The clock was put back: what is later than it is forgotten.
            self._count = int(np.searchsorted(self._times[: self._count], at))
        if self._count == len(self._times):
            self._count = self._rows
            self._times[: self._rows] = self._times[self._rows :]
            self._values[: self._rows] = self._values[self._rows :]
        row = self._values[self._count]
        row[:] = np.nan
        row[columns] = values
        self._times[self._count] = at
        self._count += 1
        for column, value in zip(columns, values.tolist(), strict=True):
            if value == value:  # not NaN
                self._newest[column] = value
                self._seen[column] = steady

    def _columns_of(self, labels: Sequence[Labels]) -> list[int]:
        if self._last[0] is labels:
            return self._last[1]
        columns = []
        for label in labels:
            column = self._columns.setdefault(label, len(self._columns))
            if column == len(self._newest):
                self._newest.append(np.nan)
                self._seen.append(-np.inf)
            columns.append(column)
        if len(self._columns) > self._values.shape[1]:
            more = np.full((len(self._values), 2 * len(self._columns)), np.nan)
            more[:, : self._values.shape[1]] = self._values
            self._values = more
        self._last = (labels, columns)
        return columns

    def newest(self, since: float) -> dict[Labels, float]:
        return {
            labels: self._newest[column]
            for labels, column in self._columns.items()
            if self._seen[column] >= since
        }

    def one(self, labels: Labels, since: float) -> float | None:
        column = self._columns.get(labels)
        if column is None or self._seen[column] < since:
            return None
        return self._newest[column]

    def window(self, start: float, end: float) -> dict[Labels, WindowStats]:
        times = self._times[: self._count]
        first, last = np.searchsorted(times, start), np.searchsorted(times, end, "right")
        if first >= last:
            return {}
        times = times[first:last]
        width = len(self._columns)
        values = self._values[first:last, :width]
        there = ~np.isnan(values)
        count = there.sum(axis=0)
        some = np.flatnonzero(count)
        averages = np.where(there, values, 0.0).sum(axis=0)[some] / count[some]
        most = np.fmax.reduce(values, axis=0)[some]
        begun = there.argmax(axis=0)[some]
        ended = len(times) - 1 - there[::-1].argmax(axis=0)[some]
        names = list(self._columns)
        rows = zip(
            some.tolist(),
            averages.tolist(),
            values[ended, some].tolist(),
            most.tolist(),
            count[some].tolist(),
            times[begun].tolist(),
            times[ended].tolist(),
            strict=True,
        )
        return {names[column]: WindowStats(*numbers) for column, *numbers in rows}


class SimulatedMetrics:
    """All that was measured; implements ``Latest`` and ``History``.

    Newest values count for ``outdated_seconds``. ``infos`` may be taken away and given back.
    """

    def __init__(self, outdated_seconds: float = 10.0) -> None:
        self.at = self.steady = 0.0
        self.infos: Sequence[object] = ()
        self._outdated = outdated_seconds
        self._blocks = {name: _Series(_ROWS[kind.step]) for name, kind in KINDS.items()}
        self._windows: dict[tuple[str, float], Mapping[Labels, WindowStats]] = {}

    def turn(self, at: float, steady: float) -> None:
        """Let it be that time, by the wall clock and the steady one."""
        self.at, self.steady = at, steady
        self._windows = {}

    def put(self, kind: str, labels: Sequence[Labels], values: Floats) -> None:
        """Values of this moment. The same ``labels`` object again is quicker than an equal one.

        Raises:
            KeyError: no such kind.
        """
        self._blocks[kind].put(self.at, self.steady, labels, values)

    # ---- Latest

    def value(self, kind: str, *labels: str) -> float | None:
        """One series' newest value; ``None`` if it is too old."""
        block = self._blocks.get(kind)
        return block.one(labels, self.steady - self._outdated) if block is not None else None

    def series(self, kind: str) -> Mapping[Labels, float]:
        """The newest value of each series of a kind."""
        return self._blocks[kind].newest(self.steady - self._outdated)

    def total(self, kind: str) -> float | None:
        """The sum over all series of a kind; ``None`` where none is new enough."""
        found = self.series(kind)
        return sum(found.values()) if found else None

    def info(self, kind: type[F]) -> F | None:
        """The newest info of a kind."""
        return next((info for info in self.infos if isinstance(info, kind)), None)

    # ---- History

    def windows(self, kind: str, seconds: float) -> Mapping[Labels, WindowStats]:
        """Every series of a kind with points in the last ``seconds``.

        Raises:
            KeyError: no such kind.
        """
        found = self._windows.get((kind, seconds))
        if found is None:
            found = self._blocks[kind].window(self.at - seconds, self.at)
            self._windows[kind, seconds] = found
        return found
