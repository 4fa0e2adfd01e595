"""Room of nodes by row, and how evenly it is used, found once for all classes. No IO."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from koord_scheduler.state.arrays import Amounts, Mask, Rows, picked_lines, span


class RowsRoom(NamedTuple):
    """CPU and memory of some rows, by resource and row, for reading only.

    ``left`` is what is left of them by the requests that count for scores, ``divisors`` what there
    is, but 1 where there is nothing. ``evenness`` says how evenly pods take them: 100 alike, 50 one
    of them and none of the other. ``lacks`` is true if one of the rows has nothing of one of them.
    """

    left: Amounts
    requested: Amounts
    divisors: Amounts
    evenness: Amounts
    lacks: bool


class RoomColumns:
    """``free`` is what is left of each resource; CPU and memory are looked at by more.

    Several plugins ask about the same rows, one after the other: the last ones are remembered.
    """

    def __init__(self, allocatable: Amounts, requested: Amounts, scored: Amounts) -> None:
        self.free: Amounts = allocatable - requested
        has, asked = allocatable[:2], requested[:2]
        divisors = np.maximum(has, 1.0)
        self._lacks: Mask = np.logical_or.reduce(has <= 0)
        evenness = evenness_of_two(asked / divisors)
        evenness[self._lacks] = EVEN
        self._lines: Amounts = np.vstack((has - scored, asked, divisors, evenness))
        self._last: tuple[Rows, RowsRoom] | None = None

    def of(self, rows: Rows) -> RowsRoom:
        """CPU and memory of some rows."""
        last = self._last
        if last is not None and last[0] is rows:
            return last[1]
        lines, lacks = picked_lines(self._lines, rows), bool(self._lacks[span(rows)].any())
        found = RowsRoom(lines[:2], lines[2:4], lines[4:6], lines[6], lacks)
        self._last = rows, found
        return found

    def update(self, row: int, allocatable: Amounts, requested: Amounts, scored: Amounts) -> None:
        """The same of one row."""
        self._last = None
        self.free[:, row] = allocatable[:, row] - requested[:, row]
        first, second = allocatable.item(0, row), allocatable.item(1, row)
        first_asked, second_asked = requested.item(0, row), requested.item(1, row)
        first_divisor, second_divisor = max(first, 1.0), max(second, 1.0)
        apart = min(first_asked / first_divisor, 1.0) - min(second_asked / second_divisor, 1.0)
        self._lacks[row] = lacks = first <= 0 or second <= 0
        self._lines[:, row] = (
            first - scored.item(0, row),
            second - scored.item(1, row),
            first_asked,
            second_asked,
            first_divisor,
            second_divisor,
            EVEN if lacks else math.floor((1 - abs(apart) / 2) * EVEN),
        )


EVEN = 100.0


def evenness_of_two(fractions: Amounts) -> Amounts:
    """Score how alike two resources are used, by row; ``fractions`` are overwritten."""
    np.minimum(fractions, 1.0, out=fractions)
    found: Amounts = fractions[0]
    found -= fractions[1]
    np.abs(found, out=found)
    np.subtract(2.0, found, out=found)  # twice of it: exact, and a step less
    found *= EVEN / 2
    return np.floor(found, out=found)
