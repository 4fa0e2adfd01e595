"""Nominated pods in columns: where room is kept, for whom, and how much. No IO."""

from __future__ import annotations

import numpy as np

from koord_scheduler.framework.nominations import Nominations
from koord_scheduler.plugin import Limit
from koord_scheduler.state.arrays import Amounts, Codes, Rows, lengthened
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.journal import RowJournal
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.usage_table import UsageTable

_NOWHERE = -1
_FEWEST = 64
_FEW = 16
"""Rows that are looked up one by one."""


class NominatedColumns:
    """Follows ``nominations``: by slot the row (-1: no such node), the priority and the usage.

    ``journal`` has the rows whose nominations changed; ``version`` changes where rows may have
    other nodes than before.
    """

    def __init__(self, nodes: ClusterState, nominations: Nominations) -> None:
        self._nodes = nodes
        self._nominations = nominations
        self._usages = UsageTable()
        self._slot_of: dict[str, int] = {}
        self._free: list[int] = []
        self._on_row: dict[int, set[int]] = {}
        self._rows: Codes = np.zeros(0, np.intp)
        self._codes: Codes = np.zeros(0, np.intp)
        self._priorities: Amounts = np.zeros(0)
        self.journal = RowJournal()
        self.version = nodes.version
        for nomination in nominations:
            self._add(nomination.key)
        nominations.on_changed = self._change

    def _change(self, key: str) -> None:
        self._remove(key)
        self._add(key)

    def follow(self) -> None:
        """Take over which rows nodes have by now."""
        if self.version != self._nodes.version:
            self.version = self._nodes.version
            self._on_row.clear()
            for key, slot in self._slot_of.items():
                self._set_row(slot, self._row_of(key))

    def on(self, priority: int, rows: Rows | None = None, but: str = "") -> Codes:
        """The slots of nominations that a pod of a priority has to respect, on some rows or all.

        That of the pod ``but`` is left out.
        """
        slots = self._slots(rows)
        chosen = self._priorities[slots] >= priority
        if but in self._slot_of:
            chosen &= slots != self._slot_of[but]
        return slots[chosen]

    def _slots(self, rows: Rows | None) -> Codes:
        if rows is None or len(rows) > _FEW:
            chosen = self._rows >= 0 if rows is None else np.isin(self._rows, rows)
            return np.flatnonzero(chosen)
        found = [slot for row in rows.tolist() for slot in self._on_row.get(row, ())]
        return np.array(found, np.intp)

    def row_of(self, key: str) -> int | None:
        """The row of the node that a pod is nominated for."""
        slot = self._slot_of.get(key)
        row = int(self._rows[slot]) if slot is not None else _NOWHERE
        return None if row == _NOWHERE else row

    def rows(self, slots: Codes) -> Rows:
        """The rows that these nominations are for, in ascending order."""
        return np.unique(self._rows[slots])

    def different(self, slots: Codes) -> list[PodUsage]:
        """Return the usages of these pods; most are copies of others."""
        return [self._usages[code] for code in np.unique(self._codes[slots]).tolist()]

    def usages_on(self, row: int, slots: Codes) -> list[PodUsage]:
        """Return the usages of those of these pods that are nominated for a row."""
        here = slots[self._rows[slots] == row]
        return [self._usages[code] for code in self._codes[here].tolist()]

    def amounts(self, limit: Limit, slots: Codes, rows: Rows) -> Amounts:
        """Return the part of a limit that these pods use up, on each of their ``rows``."""
        places = rows.searchsorted(self._rows[slots])
        amounts = self._usages.amounts(limit.of, self._codes[slots])
        return np.bincount(places, amounts, len(rows)).astype(np.float64, copy=False)

    def _add(self, key: str) -> None:
        nomination = self._nominations.get(key)
        if nomination is None:
            return
        slot = self._slot_of[key] = self._new_slot()
        self._codes[slot] = self._usages.add(nomination.usage)
        self._priorities[slot] = nomination.priority
        self._set_row(slot, self._row_of(key))

    def _set_row(self, slot: int, row: int) -> None:
        self._rows[slot] = row
        if row != _NOWHERE:
            self._on_row.setdefault(row, set()).add(slot)
            self.journal.add(row)

    def _remove(self, key: str) -> None:
        slot = self._slot_of.pop(key, None)
        if slot is None:
            return
        row = int(self._rows[slot])
        if row != _NOWHERE:
            self._on_row[row].remove(slot)
            if not self._on_row[row]:
                del self._on_row[row]
            self.journal.add(row)
        self._usages.remove(int(self._codes[slot]))
        self._priorities[slot] = -np.inf
        self._free.append(slot)

    def _row_of(self, key: str) -> int:
        nomination = self._nominations.get(key)
        row = self._nodes.row(nomination.node) if nomination is not None else None
        return _NOWHERE if row is None else row

    def _new_slot(self) -> int:
        if not self._free:
            length = len(self._rows)
            longer = max(_FEWEST, 2 * length)
            self._rows = lengthened(self._rows, longer, _NOWHERE)
            self._codes = lengthened(self._codes, longer, 0)
            self._priorities = lengthened(self._priorities, longer, -np.inf)
            self._free = list(range(longer - 1, length - 1, -1))
        return self._free.pop()
