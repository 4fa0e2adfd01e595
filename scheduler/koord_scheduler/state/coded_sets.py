"""Sets of things that nodes have several of, as taints: each different set is one code. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np

from koord_scheduler.state.arrays import Amounts, Codes, Rows, lengthened

T = TypeVar("T")

_SPARE = 256
"""So many sets that no node has may stay."""


class SetColumn(Generic[T]):
    """The sets of all nodes, in order; a cluster has few different ones.

    Codes are others after ``version`` changed: those of sets are given back that no node has.
    """

    def __init__(self, length: int) -> None:
        self.codes: Codes = np.zeros(length, np.intp)
        self.sets: list[tuple[T, ...]] = [()]
        self.version = 0
        self._code_of: dict[tuple[T, ...], int] = {(): 0}

    def lengthen(self, length: int) -> None:
        """Make room for more rows, whose sets are empty yet."""
        self.codes = lengthened(self.codes, length, 0)

    def set(self, row: int, given: Iterable[T]) -> bool:
        """The set of a row, in place of the one it had; whether it is another."""
        key = tuple(given)
        if key == self.of(row):
            return False
        code = self._code_of.get(key)
        if code is None:
            if len(self.sets) > 2 * len(self.codes) + _SPARE:
                self._give_back()
            code = self._code_of[key] = len(self.sets)
            self.sets.append(key)
        self.codes[row] = code
        return True

    def _give_back(self) -> None:
        used = np.unique(np.append(self.codes, 0))
        self.sets = [self.sets[code] for code in used.tolist()]
        self._code_of = {one: code for code, one in enumerate(self.sets)}
        self.codes = np.searchsorted(used, self.codes)
        self.version += 1

    def of(self, row: int) -> tuple[T, ...]:
        """The set of a row."""
        return self.sets[int(self.codes[row])]


class SetValues(Generic[T]):
    """Results of ``value`` for the sets of nodes; it is called once for each set."""

    def __init__(self, column: SetColumn[T], value: Callable[[tuple[T, ...]], float]) -> None:
        self._column = column
        self._value = value
        self._table: Amounts = np.zeros(0)
        self._version = column.version

    def of(self, rows: Rows) -> Amounts:
        """The values of these rows."""
        sets = self._column.sets
        if self._version != self._column.version:
            self._table, self._version = np.zeros(0), self._column.version
        if len(self._table) < len(sets):
            new = [self._value(one) for one in sets[len(self._table) :]]
            self._table = np.append(self._table, new)
        found: Amounts = self._table[self._column.codes[rows]]
        return found
