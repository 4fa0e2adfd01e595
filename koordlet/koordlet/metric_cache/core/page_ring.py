"""Memory of the metric cache: one pool of small pages, and rings of them by time. No IO.

A page has the numbers of one row over one short stretch of time, so that a series costs
memory only for the time it lived. All rings share one pool: what one does not need
another may have.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.intp]

NUMBERS = 60
"""float32 numbers in a page."""

PAGE_BYTES = 4 * NUMBERS
_NOTHING = 0
"""The page that is NaN throughout: where a row has none of its own."""


class PagePool:
    """At most so many pages, of memory that is only claimed as pages are first taken."""

    def __init__(self, pages: int) -> None:
        self.numbers: Floats = np.empty((pages + 1, NUMBERS), np.float32)
        self.numbers[_NOTHING] = np.nan
        self._back = np.empty(pages, np.intp)
        self._backs = 0
        self._touched = 1

    @property
    def room(self) -> int:
        """Number of free pages."""
        return self._backs + len(self.numbers) - self._touched

    @property
    def touched_bytes(self) -> int:
        """Memory of the pages that were ever taken; it is kept for the next ones."""
        return self._touched * PAGE_BYTES

    def take(self, wanted: int) -> Integers:
        """So many pages, each NaN; ``wanted`` is at most ``room``."""
        again = min(wanted, self._backs)
        self._backs -= again
        pages = np.empty(wanted, np.intp)
        pages[:again] = self._back[self._backs : self._backs + again]
        pages[again:] = np.arange(self._touched, self._touched + wanted - again)
        self._touched += wanted - again
        self.numbers[pages] = np.nan
        return pages

    def give(self, pages: Integers) -> None:
        """Back into the pool."""
        self._back[self._backs : self._backs + len(pages)] = pages
        self._backs += len(pages)


class Ring:
    """Rows of slots, as long as the newest ``turns`` stretches of time.

    A slot is a number of steps since the epoch. ``span`` slots are a stretch; it has one
    page for each row that has points in it. A slot has ``fields`` numbers.
    """

    def __init__(self, pool: PagePool, rows: int, turns: int, fields: int = 1) -> None:
        self.span = NUMBERS // fields
        self.fields = fields
        self.newest = -1
        self.pages = 0
        self._pool = pool
        # Zeroed memory costs nothing until a row is used.
        self._table = np.zeros((rows, turns), np.int32)
        self._held = np.full(turns, -1, np.int64)

    @property
    def oldest(self) -> int | None:
        """The oldest stretch that has pages or had."""
        held = self._held[self._held >= 0]
        return int(held.min()) if len(held) else None

    @property
    def row_bytes(self) -> int:
        """Memory of a row without its pages."""
        return self._table.shape[1] * self._table.itemsize

    def turn(self, stretch: int) -> None:
        """Let a stretch be the newest one, and forget what is too old then."""
        self.newest = max(self.newest, stretch)
        for held in self._held[(self._held >= 0) & (self._held <= self.newest - self._turns)]:
            self.drop(int(held))

    def reaches(self, stretch: int) -> bool:
        """True if a stretch is not too old."""
        return stretch > self.newest - self._turns

    def held(self, stretch: int) -> bool:
        """True if the ring has a stretch."""
        return bool(self._held[stretch % self._turns] == stretch)

    def stretches(self) -> list[int]:
        """Those it has, oldest first."""
        return sorted(int(held) for held in self._held if held >= 0)

    def wanted(self, stretch: int, rows: Integers) -> int:
        """Return the pages needed to write these rows in a stretch (an upper bound)."""
        if not self.held(stretch):
            return len(rows)
        return int(np.count_nonzero(self._table[rows, stretch % self._turns] == _NOTHING))

    def write(self, slot: int, rows: Integers, numbers: Floats) -> NDArray[np.bool_]:
        """Put ``numbers`` (a row each, of as many fields) in a slot; which found room.

        Where a row is named twice the later numbers stay.
        """
        stretch, offset = divmod(slot, self.span)
        column = stretch % self._turns
        self._held[column] = stretch
        bare = rows[self._table[rows, column] == _NOTHING]
        if len(bare):
            bare = np.unique(bare)[: self._pool.room]
            self._table[bare, column] = self._pool.take(len(bare))
            self.pages += len(bare)
        pages = self._table[rows, column]
        fits: NDArray[np.bool_] = pages != _NOTHING
        for field in range(self.fields):
            self._pool.numbers[pages[fits], field * self.span + offset] = numbers[fits, field]
        return fits

    def drop(self, stretch: int) -> None:
        """Forget a stretch."""
        column = stretch % self._turns
        pages = self._table[:, column]
        self._give(pages[pages != _NOTHING].astype(np.intp))
        self._table[pages != _NOTHING, column] = _NOTHING
        self._held[column] = -1

    def drop_oldest(self) -> None:
        """Forget the oldest stretch."""
        if self.oldest is not None:
            self.drop(self.oldest)

    def forget_from(self, slot: int) -> None:
        """Forget a slot and all after it."""
        stretch, offset = divmod(slot, self.span)
        for held in self.stretches():
            if held > stretch:
                self.drop(held)
        if self.held(stretch):
            pages = self._table[:, stretch % self._turns]
            pages = pages[pages != _NOTHING]
            for field in range(self.fields):
                start = field * self.span
                self._pool.numbers[pages, start + offset : start + self.span] = np.nan
        self.newest = min(self.newest, stretch)

    def clear(self, rows: Integers) -> None:
        """Forget rows."""
        pages = self._table[rows]
        self._give(pages[pages != _NOTHING].astype(np.intp))
        self._table[rows] = _NOTHING

    def used(self, rows: int) -> NDArray[np.bool_]:
        """Return an array that is true for those of the first rows that have pages."""
        return np.asarray(self._table[:rows].any(axis=1), np.bool_)

    def last_used(self, rows: int) -> NDArray[np.int64]:
        """The newest stretch in which each of the first so many rows has a page, or -1."""
        found: NDArray[np.int64] = np.where(self._table[:rows] != _NOTHING, self._held, -1).max(1)
        return found

    def of_stretch(self, stretch: int) -> tuple[Integers, Floats]:
        """The rows that have a page in a stretch, and their slots (of one field)."""
        pages = self._table[:, stretch % self._turns]
        rows = np.flatnonzero(pages)
        return rows, self._pool.numbers[pages[rows]]

    def read(self, rows: Integers, first: int, last: int) -> tuple[Integers, Floats]:
        """Slots from ``first`` to ``last`` of rows: slot numbers, and fields × rows × slots.

        Slots that the ring does not reach are left out; NaN where there is no point.
        """
        held = self.stretches()
        if held:
            first, last = max(first, held[0] * self.span), min(last, (held[-1] + 1) * self.span - 1)
        if not held or first > last:
            return np.empty(0, np.intp), np.empty((self.fields, len(rows), 0), np.float32)
        start = first // self.span
        wanted = np.arange(start, last // self.span + 1)
        columns = wanted % self._turns
        pages = np.where(self._held[columns] == wanted, self._table[rows][:, columns], _NOTHING)
        shape = (len(rows), len(wanted), self.fields, self.span)
        numbers = self._pool.numbers[pages].reshape(shape).transpose(2, 0, 1, 3)
        flat = numbers.reshape(self.fields, len(rows), len(wanted) * self.span)
        offset = first - start * self.span
        return np.arange(first, last + 1), flat[:, :, offset : offset + last - first + 1]

    @property
    def _turns(self) -> int:
        return len(self._held)

    def _give(self, pages: Integers) -> None:
        self._pool.give(pages)
        self.pages -= len(pages)
