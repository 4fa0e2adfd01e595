"""The kinds of numpy arrays that columns are made of. No IO."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
"""Numbers of rows, each once; many of them (``_FEW``) in ascending order."""
Mask = NDArray[np.bool_]
"""Of each row, whether something holds."""
Codes = NDArray[np.intp]
"""Of each row, a code; -1 for none."""
Amounts = NDArray[np.float64]
"""Of each row, a whole number below 2⁵³, where sums and ⌊a/b⌋ are exact; divides faster."""

_Kind = TypeVar("_Kind", bound=np.generic)

_FEW = 256
"""Rows; whether more of them follow each other is worth a look."""


def lengthened(array: NDArray[_Kind], length: int, fill: Any) -> NDArray[_Kind]:
    """The same values in an array of ``length`` (along its last axis), the rest ``fill``."""
    longer = np.full((*array.shape[:-1], length), fill, array.dtype)
    longer[..., : array.shape[-1]] = array
    return longer


def heightened(table: Amounts, height: int) -> Amounts:
    """The same values in a table with at least ``height`` lines, the rest 0."""
    if height <= len(table):
        return table
    higher = np.zeros((max(height, 2 * len(table)), table.shape[1]))
    higher[: len(table)] = table
    return higher


def span(rows: Rows) -> Rows | slice:
    """The same rows; many that follow each other as a slice, which is ten times as fast.

    What is picked by it may be a view: for reading only.
    """
    if len(rows) < _FEW or rows[-1] - rows[0] + 1 != len(rows):
        return rows
    return slice(int(rows[0]), int(rows[-1]) + 1)


def copied(values: NDArray[_Kind], rows: Rows) -> NDArray[_Kind]:
    """A copy of these rows."""
    at = span(rows)
    return values[at].copy() if isinstance(at, slice) else values[at]


def picked(table: Amounts, numbers: Rows, rows: Rows) -> Amounts:
    """Of a table by number and row, a copy of these numbers and rows."""
    at = span(rows)
    found: Amounts
    if isinstance(at, slice):
        found = table.take(numbers, axis=0)[:, at]
    elif len(rows) < _FEW:
        found = table[numbers[:, None], rows]
    else:
        found = np.empty((len(numbers), len(rows)))
        for place, number in enumerate(numbers.tolist()):
            # All rows are there; "clip" writes into the array, where "raise" makes a copy first.
            table[number].take(rows, out=found[place], mode="clip")
    return found


def picked_lines(table: Amounts, rows: Rows) -> Amounts:
    """Of all lines of a table these rows; it may be a view: for reading only."""
    at = span(rows)
    if isinstance(at, slice):
        return table[:, at]
    if len(rows) < _FEW:
        return table.take(rows, axis=1, mode="clip")
    return np.array([line.take(rows, mode="clip") for line in table])


def both(mask: Mask | None, other: Mask | None) -> Mask | None:
    """Mask where both hold; ``None`` stands for everywhere."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other
