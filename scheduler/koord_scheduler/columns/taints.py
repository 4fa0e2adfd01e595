"""Taints of nodes: each set of taints that some node has is one code. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from koord_scheduler.columns.arrays import Amounts, Codes, Rows, lengthened
from koord_scheduler.objects.node import Taint

Taints = tuple[Taint, ...]


class TaintColumn:
    """The taints of all nodes; a cluster has few different sets of them."""

    def __init__(self, length: int) -> None:
        self.codes: Codes = np.zeros(length, np.intp)
        self.sets: list[Taints] = [()]
        self._code_of: dict[Taints, int] = {(): 0}

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have no taints yet."""
        self.codes = lengthened(self.codes, length, 0)

    def set(self, row: int, taints: Iterable[Taint]) -> None:
        """The taints of a row, in place of those it had."""
        key = tuple(taints)
        code = self._code_of.get(key)
        if code is None:
            code = self._code_of[key] = len(self.sets)
            self.sets.append(key)
        self.codes[row] = code

    def of(self, row: int) -> Taints:
        """The taints of a row."""
        return self.sets[int(self.codes[row])]


class TaintValues:
    """What ``value`` returns for the taints of nodes; it is called once for each set of taints."""

    def __init__(self, taints: TaintColumn, value: Callable[[Taints], float]) -> None:
        self._taints = taints
        self._value = value
        self._table: Amounts = np.zeros(0)

    def of(self, rows: Rows) -> Amounts:
        """The values of these rows."""
        sets = self._taints.sets
        if len(self._table) < len(sets):
            new = [self._value(one) for one in sets[len(self._table) :]]
            self._table = np.append(self._table, new)
        found: Amounts = self._table[self._taints.codes[rows]]
        return found
