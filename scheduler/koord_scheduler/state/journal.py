"""Rows that changed since a certain time. No IO."""

from __future__ import annotations

import numpy as np

from koord_scheduler.state.arrays import Rows

FEW = 4
"""So many changes are looked at one after the other, in plain numbers."""


class RowJournal:
    """Rows in the order in which they changed; ``position`` is how many changes there were.

    It remembers the last ``size`` changes. Who looks at it less often looks at all rows.
    """

    def __init__(self, size: int = 1 << 16) -> None:
        """``size`` is a power of two."""
        self._rows = np.zeros(size, np.intp)
        self._last = size - 1
        self.position = 0

    def add(self, row: int) -> None:
        """Note that a row has changed."""
        self._rows[self.position & self._last] = row
        self.position += 1

    def few_since(self, position: int) -> list[int] | None:
        """The rows that changed since a former ``position``, each once; ``None`` if many did."""
        count = self.position - position
        if count > FEW:
            return None
        row_at, last = self._rows.item, self._last
        if count == 1:  # what most look-ups find
            return [row_at(position & last)]
        return list({row_at(at & last) for at in range(position, self.position)})

    def changed_since(self, position: int) -> Rows | None:
        """The rows that changed since a former ``position``, each once; ``None`` if forgotten."""
        count = self.position - position
        if count > len(self._rows):
            return None
        at = position & self._last
        rows = self._rows[at : at + count].copy()
        if len(rows) < count:
            rows = np.concatenate((rows, self._rows[: count - len(rows)]))
        # As np.unique does it, which takes as long again to find out how.
        rows.sort()
        is_new = np.ones(count, np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=is_new[1:])
        return rows[is_new]
