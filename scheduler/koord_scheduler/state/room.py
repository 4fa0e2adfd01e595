"""Room of nodes by row, and how evenly it is used, found once for all classes. No IO."""

from __future__ import annotations

import math

import numpy as np

from koord_scheduler.state.arrays import Amounts, Mask


class RoomColumns:
    """``free`` is what is left of each resource; the others are about CPU and memory alone.

    ``left`` is what is left of them by the requests that count for scores, ``divisors`` what there
    is, but 1 where there is nothing. ``lacks`` says which rows lack one of them. ``evenness`` says
    how evenly pods take them: 100 alike, 50 one of them and none of the other.
    """

    def __init__(self, allocatable: Amounts, requested: Amounts, scored: Amounts) -> None:
        self.free: Amounts = allocatable - requested
        self.left: Amounts = allocatable[:2] - scored
        self.divisors: Amounts = np.maximum(allocatable[:2], 1.0)
        self.lacks: Mask = np.logical_or.reduce(allocatable[:2] <= 0)
        self.evenness = evenness_of_two(requested[:2] / self.divisors)
        self.evenness[self.lacks] = EVEN

    def update(self, row: int, allocatable: Amounts, requested: Amounts, scored: Amounts) -> None:
        """The same of one row."""
        self.free[:, row] = allocatable[:, row] - requested[:, row]
        fractions = [0.0, 0.0]
        for line in (0, 1):
            has = allocatable.item(line, row)
            self.left[line, row] = has - scored.item(line, row)
            self.divisors[line, row] = divisor = max(has, 1.0)
            fractions[line] = min(requested.item(line, row) / divisor, 1.0)
        self.lacks[row] = lacks = allocatable.item(0, row) <= 0 or allocatable.item(1, row) <= 0
        apart = abs(fractions[0] - fractions[1]) / 2
        self.evenness[row] = EVEN if lacks else math.floor((1 - apart) * EVEN)


EVEN = 100.0


def evenness_of_two(fractions: Amounts) -> Amounts:
    """Score how alike two resources are used, by row; ``fractions`` are overwritten."""
    np.minimum(fractions, 1.0, out=fractions)
    found: Amounts = fractions[0]
    found -= fractions[1]
    np.abs(found, out=found)
    found *= 0.5
    np.subtract(1.0, found, out=found)
    found *= EVEN
    return np.floor(found, out=found)
