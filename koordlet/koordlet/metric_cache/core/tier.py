"""All series of one step: their rows, what is kept of them as it came, and more coarsely.

Each stretch of 60 steps becomes one coarse slot once no point of it can come any more:
its average, least, greatest and how many points it had. No IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from koordlet.metric_cache.core.aggregation import PointBlock
from koordlet.metric_cache.core.page_ring import Floats, Integers, PagePool, Ring
from koordlet.metric_cache.core.samples import Series

RAW_SECONDS = 3600
COARSE_SECONDS = 12 * 3600
COARSE = 60
"""Steps in a coarse slot: a minute where the step is 1 s, ten where it is 10 s."""

_AVERAGE, _LOW, _HIGH, _COUNT = range(4)
_SERIES_BYTES = 500
"""Bytes of a series in names and dictionaries, measured for pods' identifiers."""


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Numbers of some series, for the log: raw ones of one time, or those of a coarse slot.

    ``at`` is that time, or the slot's beginning, on the cache's timeline; by ``ahead`` seconds
    the wall clock was ahead of that. ``key`` stands for ``series``: equal keys of one cache mean
    equal series.
    """

    step: int
    coarse: bool
    at: float
    series: Sequence[Series]
    key: bytes
    numbers: Floats
    ahead: float = 0.0


class Tier:
    """Series of one step; ``make_room`` is asked for pages before they are taken."""

    def __init__(
        self, step: int, rows: int, pool: PagePool, make_room: Callable[[int], None]
    ) -> None:
        self.step = step
        self.raw = Ring(pool, rows, RAW_SECONDS // step // COARSE + 1)
        coarse_slots = COARSE_SECONDS // step // COARSE
        self.coarse = Ring(pool, rows, -(-coarse_slots // (COARSE // 4)) + 1, fields=4)
        self.epoch = 0
        self._make_room = make_room
        self._rows: dict[str, dict[Series, int]] = {}
        self._names: list[Series | None] = []
        self._free: list[int] = []
        self._capacity = rows
        self._sealed = -1
        self._given_up = -1

    @property
    def series(self) -> int:
        """Number of series."""
        return len(self._names) - len(self._free)

    @property
    def table_bytes(self) -> int:
        """Memory beside the pages."""
        row = self.raw.row_bytes + self.coarse.row_bytes
        return len(self._names) * row + self.series * _SERIES_BYTES

    def rows_of_kind(self, kind: str) -> dict[Series, int]:
        """Rows by series."""
        return self._rows.setdefault(kind, {})

    def admit(self, series: Series, busy: Sequence[int]) -> int | None:
        """A row for a new series; ``None`` where all rows are in use.

        ``busy`` rows are about to be written, and are not taken away.
        """
        if not self._free and len(self._names) == self._capacity:
            self._evict(busy)
        if self._free:
            row = self._free.pop()
            self._names[row] = series
        elif len(self._names) < self._capacity:
            row = len(self._names)
            self._names.append(series)
        else:
            return None
        self.rows_of_kind(series.kind)[series] = row
        return row

    def retain(self, wanted: Callable[[Series], bool]) -> None:
        """Forget all other series."""
        names = enumerate(self._names)
        self._release(row for row, name in names if name is not None and not wanted(name))

    def turn(self, at: float) -> list[SampleBatch]:
        """Let it be that time: seal what is past, forget what is too old."""
        stretch = int(at // self.step) // COARSE
        if stretch <= self.raw.newest:
            return []
        sealed: list[SampleBatch] = []
        for one in self.raw.stretches():
            # The one before may still get points that are late.
            if self._sealed < one < stretch - 1:
                sealed += self._seal(one, *self._reduced(one))
        self.raw.turn(stretch)
        self.coarse.turn(stretch // self.coarse.span)
        self._release_silent()
        return sealed

    def put(self, at: float, rows: Integers, values: Floats) -> tuple[list[SampleBatch], int]:
        """Keep values of rows; what was put, and how many found no room."""
        slot = int(at // self.step)
        stretch = slot // COARSE
        if stretch <= self._given_up or not self.raw.reaches(stretch):
            return [], len(rows)
        self._make_room(self.raw.wanted(stretch, rows))
        numbers = values.reshape(-1, 1)
        fits = self.raw.write(slot, rows, numbers)
        if not fits.all():
            rows, numbers = rows[fits], numbers[fits]
        done = [self._batch(False, at, rows, numbers)] if len(rows) else []
        return done, int(np.count_nonzero(~fits))

    def restore(self, at: float, rows: Integers, numbers: Floats) -> None:
        """Put back a coarse slot that was sealed in an earlier run."""
        slot = int(at // (self.step * COARSE))
        if slot <= self._sealed:
            # Slots are sealed in order, but where the clock was put back.
            self.coarse.forget_from(slot)
        self._sealed = slot
        self._store(slot, rows, numbers)

    def forget_after(self, at: float) -> None:
        """Forget points later than ``at``: the clock was wrong when they were measured."""
        slot = int(at // self.step)
        stretch = slot // COARSE
        self.raw.forget_from(slot + 1)
        self.coarse.forget_from(stretch)
        self._sealed = min(self._sealed, stretch - 1)
        self._given_up = min(self._given_up, stretch - 1)

    def give_up_raw(self) -> list[SampleBatch]:
        """Forget the oldest raw stretch, once it is sealed."""
        oldest = self.raw.stretches()[0]
        sealed = self._reduced(oldest)
        self.raw.drop(oldest)
        self._given_up = oldest
        return self._seal(oldest, *sealed)

    def read(self, series: Sequence[Series], start: float, end: float) -> PointBlock:
        """The points of series in a window: raw where they are remembered so, else coarse."""
        rows = self._rows_of(series)
        first, last = -int(-start // self.step), int(end // self.step)
        raw_slots, raw = self.raw.read(rows, first, last)
        times, values = np.asarray(raw_slots * float(self.step), np.float64), raw[0]
        seam = self.raw.oldest
        before = last // COARSE if seam is None else seam - 1
        wide = self.step * COARSE
        slots, coarse = self.coarse.read(rows, -int(-start // wide), min(int(end // wide), before))
        if np.isnan(coarse[_COUNT]).all():
            return PointBlock(tuple(series), times, values)
        counted = (~np.isnan(values)).astype(np.float32)

        def both(field: int, newer: Floats) -> Floats:
            return np.concatenate((coarse[field], newer), axis=1)

        starts = np.asarray(slots * float(wide), np.float64)
        return PointBlock(
            tuple(series),
            np.concatenate((starts, times)),
            both(_AVERAGE, values),
            both(_LOW, values),
            both(_HIGH, values),
            both(_COUNT, counted),
        )

    def _rows_of(self, series: Iterable[Series]) -> Integers:
        return np.fromiter((self._rows[name.kind][name] for name in series), np.intp)

    def _reduced(self, stretch: int) -> tuple[Integers, Floats]:
        """A raw stretch as numbers of a coarse slot."""
        rows, values = self.raw.of_stretch(stretch)
        counts = np.count_nonzero(~np.isnan(values), axis=1)
        rows, values, counts = rows[counts > 0], values[counts > 0], counts[counts > 0]
        numbers = np.empty((len(rows), 4), np.float32)
        numbers[:, _AVERAGE] = np.nansum(values, axis=1, dtype=np.float64) / counts
        numbers[:, _LOW] = np.fmin.reduce(values, axis=1)
        numbers[:, _HIGH] = np.fmax.reduce(values, axis=1)
        numbers[:, _COUNT] = counts
        return rows, numbers

    def _seal(self, slot: int, rows: Integers, numbers: Floats) -> list[SampleBatch]:
        if slot <= self._sealed or not len(rows):
            return []
        self._sealed = slot
        self._store(slot, rows, numbers)
        return [self._batch(True, float(slot * self.step * COARSE), rows, numbers)]

    def _store(self, slot: int, rows: Integers, numbers: Floats) -> None:
        stretch = slot // self.coarse.span
        if self.coarse.reaches(stretch):
            self.coarse.turn(stretch)
            self._make_room(self.coarse.wanted(stretch, rows))
            self.coarse.write(slot, rows, numbers)

    def _batch(self, coarse: bool, at: float, rows: Integers, numbers: Floats) -> SampleBatch:
        place = b"%d %d " % (self.step, self.epoch)
        # Remembered by the log for each group: a digest is enough.
        key = blake2b(place + rows.tobytes(), digest_size=16).digest()
        names = self._names
        series = [name for row in rows.tolist() if (name := names[row]) is not None]
        return SampleBatch(self.step, coarse, at, series, key, numbers)

    def _evict(self, busy: Sequence[int]) -> None:
        """Release the sixteenth of the rows that were silent longest, but none that is live."""
        known = len(self._names)
        coarse = self.coarse.last_used(known) * self.coarse.span
        last = np.maximum(self.raw.last_used(known), coarse)
        last[np.array(busy, np.intp)] = self.raw.newest
        silent = np.flatnonzero(last < self.raw.newest - 1)
        chosen = silent[np.argsort(last[silent], kind="stable")][: max(1, self._capacity // 16)]
        self._release(int(row) for row in chosen)

    def _release_silent(self) -> None:
        """Free the rows of series of which nothing is remembered."""
        known = len(self._names)
        silent = ~(self.raw.used(known) | self.coarse.used(known))
        self._release(int(row) for row in np.flatnonzero(silent))

    def _release(self, rows: Iterable[int]) -> None:
        freed = [row for row in rows if self._names[row] is not None]
        for row in freed:
            if (series := self._names[row]) is not None:
                del self._rows[series.kind][series]
            self._names[row] = None
        if freed:
            self.epoch += 1
            self._free += freed
            gone = np.array(freed, np.intp)
            self.raw.clear(gone)
            self.coarse.clear(gone)
