"""Labels of nodes as codes, a column for each key of a node that somebody asks for. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from koord_scheduler.objects.node_selector import NodeRequirement
from koord_scheduler.state.arrays import Codes, Mask, Rows, lengthened

_MOST_TABLE_BYTES = 1 << 20
"""Of the tables of a label; those that were asked for last stay."""
_TABLE_BYTES = 500
"""Approximate size of a table beside its values."""
_SPARE_VALUES = 256


class LabelColumn:
    """The values of one label.

    ``codes`` has for each row the number of its value in ``values``, -1 where the node has no
    such label.
    """

    def __init__(self, length: int) -> None:
        self.codes: Codes = np.full(length, -1, np.intp)
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}
        self._tables: dict[NodeRequirement, Mask] = {}

    def code(self, value: str) -> int:
        """The code of a value; a new one if no node had it yet."""
        found = self._code_of.get(value)
        if found is None:
            found = self._code_of[value] = len(self.values)
            self.values.append(value)
        return found

    def matches(self, requirement: NodeRequirement, rows: Rows | None = None) -> Mask:
        """Mask the nodes of ``rows``, or all, that meet a requirement on this label."""
        codes = self.codes if rows is None else self.codes[rows]
        if requirement.operator == "In":
            # Many different ones are asked about, each volume of a node for another: no table.
            known = [self._code_of[one] for one in requirement.values if one in self._code_of]
            return codes == known[0] if len(known) == 1 else np.isin(codes, known)
        found: Mask = self._table(requirement)[codes]
        return found

    def _table(self, requirement: NodeRequirement) -> Mask:
        """For each code whether it is meant; the last one, where -1 points, is of no value."""
        table = self._tables.pop(requirement, None)
        done = 0 if table is None else len(table) - 1
        if table is None or done < len(self.values):
            new = [requirement.allows(value) for value in self.values[done:]]
            before = np.zeros(0, np.bool_) if table is None else table[:-1]
            table = np.append(before, [*new, requirement.allows(None)]).astype(np.bool_)
        self._tables[requirement] = table
        while len(self._tables) * (len(table) + _TABLE_BYTES) > _MOST_TABLE_BYTES:
            del self._tables[next(iter(self._tables))]
        return table


class LabelColumns:
    """The labels of all nodes.

    Pods ask for any key: one that no node has needs no column, and a value that no node has any
    more is given back together with its column.
    """

    def __init__(self, length: int) -> None:
        self._rows_with: Counter[str] = Counter()
        self._labels: list[Mapping[str, str]] = [{} for _ in range(length)]
        self._columns: dict[str, LabelColumn] = {}

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have no labels yet."""
        self._labels += [{} for _ in range(length - len(self._labels))]
        for column in self._columns.values():
            column.codes = lengthened(column.codes, length, -1)

    def set(self, row: int, labels: Mapping[str, str]) -> bool:
        """The labels of a row, in place of those it had; whether they are others."""
        if labels == self._labels[row]:
            return False
        self._count(self._labels[row], labels)
        self._labels[row] = labels
        for key, column in [*self._columns.items()]:
            value = labels.get(key)
            column.codes[row] = -1 if value is None else column.code(value)
            is_unused = key not in self._rows_with
            if is_unused or len(column.values) > 2 * len(self._labels) + _SPARE_VALUES:
                del self._columns[key]
        return True

    def _count(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        self._rows_with.update(now.keys() - before.keys())
        for key in before.keys() - now.keys():
            self._rows_with[key] -= 1
            if not self._rows_with[key]:
                del self._rows_with[key]

    def of(self, row: int) -> Mapping[str, str]:
        """The labels of a row."""
        return self._labels[row]

    def column(self, key: str) -> LabelColumn:
        """The column of a label, as it is until nodes change."""
        column = self._columns.get(key)
        if column is None:
            column = LabelColumn(len(self._labels))
            if key not in self._rows_with:
                return column
            self._columns[key] = column
            for row, labels in enumerate(self._labels):
                if key in labels:
                    column.codes[row] = column.code(labels[key])
        return column

    def matches(self, requirements: Sequence[NodeRequirement], rows: Rows | None = None) -> Mask:
        """Mask the nodes that meet all ``requirements`` on their labels."""
        found = np.ones(len(self._labels) if rows is None else len(rows), np.bool_)
        for requirement in requirements:
            found &= self.column(requirement.key).matches(requirement, rows)
        return found
