"""The kinds of numpy arrays that columns are made of. No IO."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
"""Numbers of rows."""
Mask = NDArray[np.bool_]
"""Of each row, whether something holds."""
Codes = NDArray[np.intp]
"""Of each row, a code; -1 for none."""
Amounts = NDArray[np.float64]
"""Of each row, a whole number below 2⁵³, where sums and ⌊a/b⌋ are exact; divides faster."""

_Kind = TypeVar("_Kind", bound=np.generic)

_FEW = 256
"""Rows; to pick more of them, whole columns are copied first, which is faster then."""


def lengthened(array: NDArray[_Kind], length: int, fill: Any) -> NDArray[_Kind]:
    """The same values in an array of ``length`` (along its last axis), the rest ``fill``."""
    longer = np.full((*array.shape[:-1], length), fill, array.dtype)
    longer[..., : array.shape[-1]] = array
    return longer


def picked(table: Amounts, numbers: Rows, rows: Rows) -> Amounts:
    """Of a table by number and row, these numbers and rows."""
    if len(rows) < _FEW:
        found: Amounts = table[numbers[:, None], rows]
        return found
    return table[numbers].take(rows, axis=1)
