"""Amounts of nodes and requests of their pods, by resource. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from sys import intern

import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.state.arrays import Amounts, Rows, heightened, lengthened
from koord_scheduler.state.room import RoomColumns

PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources that every node has, and that scores compare though a pod asks for none of them."""
SCORED = {CPU: 0, MEMORY: 1}
"""The columns of ``ResourceColumns.scored``."""

Request = tuple[tuple[str, float], ...]
"""Amounts by resource, those of ``ALWAYS`` and pods first; those that are 0 are left out."""

NOWHERE = len(ALWAYS) + 1
"""The column of a resource that no node has: of it there is nothing, and nothing is asked for."""
_ORDER = {name: place for place, name in enumerate((*ALWAYS, PODS))}
_MANY_TOUCHED = 64
"""Rows; numpy is faster for all rows than plain numbers are for more of them."""
_SPARE = 16
"""So many columns of resources that no node has any more stay, in case that one has them again."""


class ResourceColumns:
    """Amounts by resource and row: CPU in millicores, everything else whole.

    ``allocatable[c]`` and ``requested[c]`` are the columns of the resource ``names[c]``; one whose
    name is "" is spare. A resource has a column while a node has some of it: pods may name as many
    others as they like. What placed pods ask for of those is kept by row.
    ``version`` changes when columns are those of other resources than before.
    ``scored`` has the requests of CPU and memory that count for scores (``PodRequests``).
    """

    def __init__(self, length: int) -> None:
        self.names: list[str] = [*ALWAYS, PODS, ""]
        self.version = 0
        self._column_of = dict(_ORDER)
        self._free: list[int] = []
        self._rows_with: Counter[str] = Counter()
        self._unused: dict[str, None] = {}
        self._elsewhere: dict[str, dict[int, float]] = {}
        self.allocatable: Amounts = np.zeros((len(self.names), length))
        self.requested: Amounts = np.zeros((len(self.names), length))
        self.scored: Amounts = np.zeros((2, length))
        self._room: RoomColumns | None = None
        self._touched: set[int] = set()

    def room(self) -> RoomColumns:
        """Columns that follow from the amounts, as they are now."""
        if self._room is None or len(self._touched) > _MANY_TOUCHED:
            self._room = RoomColumns(self.allocatable, self.requested, self.scored)
        else:
            for row in self._touched:
                self._room.update(row, self.allocatable, self.requested, self.scored)
        self._touched.clear()
        return self._room

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have nothing yet."""
        self.allocatable = lengthened(self.allocatable, length, 0)
        self.requested = lengthened(self.requested, length, 0)
        self.scored = lengthened(self.scored, length, 0)
        self._room = None

    def column(self, name: str) -> int:
        """The column of a resource, the same for one ``version``; ``NOWHERE`` if it has none."""
        return self._column_of.get(name, NOWHERE)

    def known(self, name: str) -> str:
        """The name of a resource that has a column; "" stands for all that no node has."""
        return name if name in self._column_of else ""

    def columns(self, names: Sequence[str]) -> NamedColumns:
        """Those of several resources, for who keeps them."""
        return NamedColumns(self, names)

    def request(self, amounts: Mapping[str, float]) -> Request:
        """Amounts in order, without those that are 0."""
        named = [(intern(name), float(amount)) for name, amount in amounts.items() if amount]
        return tuple(sorted(named, key=_place))

    def asked_of(self, name: str, row: int) -> float:
        """Return the pods' request of a resource in a row, also of one that no node has."""
        column = self._column_of.get(name)
        if column is None:
            return self._elsewhere.get(name, {}).get(row, 0.0)
        return float(self.requested[column, row])

    def allocatable_on(self, row: int) -> dict[str, float]:
        """Resources of a row's node, 0 of others that nodes have."""
        columns = self._column_of.items()
        return {name: float(self.allocatable[column, row]) for name, column in columns}

    def asked_on(self, row: int) -> dict[str, float]:
        """Requests of the pods of a row, 0 of other resources that nodes have."""
        found = {name: self.asked_of(name, row) for name in self._column_of}
        return found | {name: rows[row] for name, rows in self._elsewhere.items() if row in rows}

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """Replace a node's amounts."""
        self._touched.add(row)
        for column in np.flatnonzero(self.allocatable[:, row]).tolist():
            if not amounts.get(self.names[column]):
                self.allocatable[column, row] = 0
                self._count(self.names[column], -1)
        for name, amount in amounts.items():
            if amount:
                column = self._column_for(name)
                if not self.allocatable[column, row]:
                    self._count(name, 1)
                self.allocatable[column, row] = amount

    def add(self, row: int, request: Request, scored: tuple[float, float], sign: int = 1) -> None:
        """A pod is on a node, or with -1 for ``sign`` not any more."""
        self._touched.add(row)
        for name, amount in request:
            column = self._column_of.get(name)
            if column is None:
                self._add_elsewhere(row, name, sign * amount)
            else:
                self.requested[column, row] += sign * amount
        self.scored[0, row] += sign * scored[0]
        self.scored[1, row] += sign * scored[1]

    def replace_asked(self, row: int, requested: Amounts, scored: Sequence[float]) -> None:
        """Requests of the pods of a row, by column, in place of those that were counted."""
        self._touched.add(row)
        self.requested[:, row], self.scored[:, row] = requested, scored

    def _add_elsewhere(self, row: int, name: str, amount: float) -> None:
        rows = self._elsewhere.setdefault(name, {})
        rows[row] = rows.get(row, 0.0) + amount
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._elsewhere[name]

    def _column_for(self, name: str) -> int:
        """The column of a resource that a node has."""
        column = self._column_of.get(name)
        if column is None:
            column = self._column_of[name] = self._spare_column()
            self._room = None
            self.names[column] = name
            self.version += 1
            for row, amount in self._elsewhere.pop(name, {}).items():
                self.requested[column, row] = amount
        return column

    def _spare_column(self) -> int:
        if self._free:
            return self._free.pop()
        self.names.append("")
        self.allocatable = heightened(self.allocatable, len(self.names))
        self.requested = heightened(self.requested, len(self.names))
        return len(self.names) - 1

    def _count(self, name: str, rows: int) -> None:
        """So many rows more have a resource."""
        if name in _ORDER:
            return
        self._rows_with[name] += rows
        if self._rows_with[name]:
            self._unused.pop(name, None)
            return
        del self._rows_with[name]
        self._unused[name] = None
        if len(self._unused) > _SPARE:
            self._give_back()

    def _give_back(self) -> None:
        """Give the columns back of all resources that no node has."""
        for name in self._unused:
            column = self._column_of.pop(name)
            amounts = self.requested[column]
            rows = np.flatnonzero(amounts).tolist()
            if rows:
                self._elsewhere[name] = {row: float(amounts[row]) for row in rows}
            amounts[:] = 0
            self.names[column] = ""
            self._free.append(column)
        self._unused.clear()
        self._room = None
        self.version += 1


class NamedColumns:
    """The columns of some resources, which may be others after a node has changed."""

    def __init__(self, resources: ResourceColumns, names: Sequence[str]) -> None:
        self._resources = resources
        self._names = names
        self._version = -1
        self._columns: Rows = np.zeros(0, np.intp)
        self._listed: list[int] = []

    @property
    def now(self) -> Rows:
        """By resource, in the order of the names."""
        if self._version != self._resources.version:
            self._look_up()
        return self._columns

    @property
    def listed(self) -> list[int]:
        """The same in plain numbers."""
        if self._version != self._resources.version:
            self._look_up()
        return self._listed

    def _look_up(self) -> None:
        self._listed = [self._resources.column(name) for name in self._names]
        self._columns = np.array(self._listed, np.intp)
        self._version = self._resources.version


def _place(one: tuple[str, float]) -> tuple[int, str]:
    return _ORDER.get(one[0], len(_ORDER)), one[0]
