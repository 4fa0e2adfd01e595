"""The room that parked classes may get, of nodes that changed or of all. No IO."""

from __future__ import annotations

from itertools import chain

import numpy as np

from koord_scheduler.framework.parked_columns import ParkedColumns
from koord_scheduler.framework.row_scores import RowScores
from koord_scheduler.state.arrays import Amounts, Mask, Rows, lengthened
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.resources import Request


class ParkedRoom:
    """Free resources of nodes; reserved ones count as free, as some pods may use them.

    ``is_dirty`` are the rows that changed since the classes were looked at that were not looked at
    in this round. What is ``left`` is less than what is free by what was taken since ``absorb``.
    """

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes
        self._seen = 0
        self._held: dict[int, list[Request]] = {}
        self._free: Amounts = np.zeros((0, 0))
        self._left: Amounts = self._free
        self._rows: dict[int, Rows] = {}
        self._is_next: Mask = np.zeros(len(nodes), np.bool_)
        self.is_dirty: Mask = np.zeros(len(nodes), np.bool_)

    def absorb(self, names: list[str], *, in_round: bool) -> None:
        """Take over what changed; ``in_round``: some classes were looked at before that."""
        nodes = self._nodes
        rows = nodes.journal.changed_since(self._seen)
        self._seen = nodes.journal.position
        if rows is None or len(nodes) > len(self.is_dirty):
            rows = np.arange(len(nodes))
        self.is_dirty = lengthened(self.is_dirty, len(nodes), fill=False)
        self._is_next = lengthened(self._is_next, len(nodes), fill=False)
        self.is_dirty[rows] = True
        if in_round:
            self._is_next[rows] = True
        self._note_held(rows)
        self._rows = {}
        self._free = self._left = np.zeros((0, len(nodes)))
        self.measure(names)

    def measure(self, names: list[str]) -> None:
        """Look up what is free of those of these resources that are new."""
        more = names[len(self._free) :]
        if not more:
            return
        resources = self._nodes.resources
        columns = [resources.column(name) for name in more]
        free = resources.allocatable[columns] - resources.requested[columns]
        line_of = {name: line for line, name in enumerate(more)}
        for row, requests in self._held.items():
            for name, amount in chain.from_iterable(requests):
                if name in line_of:
                    free[line_of[name], row] += amount
        is_taken = self._left is not self._free
        self._free = np.concatenate((self._free, free))
        self._left = np.concatenate((self._left, free)) if is_taken else self._free

    def end_round(self) -> None:
        """All classes were looked at: what changed meanwhile is for the next round."""
        self.is_dirty, self._is_next = self._is_next, np.zeros(len(self._nodes), np.bool_)
        self._rows = {}

    def most(self, parked: ParkedColumns) -> Amounts:
        """By line and code, the most that one node has; -inf where there is none."""
        found = np.full(parked.shape, -np.inf)
        for code in parked.codes():
            rows = self.rows(parked.bases[code // 2], everywhere=bool(code % 2))
            if len(rows):
                found[0, code] = 0
                found[1:, code] = self._free[:, rows].max(axis=1)
        return found

    def has(self, needs: Amounts, rows: Rows, *, left: bool = False) -> bool:
        """True if one of these nodes has all of it free, or with ``left`` left."""
        room = self._left if left else self._free
        return bool((room[:, rows] >= needs[1:, None]).all(axis=0).any())

    def take(self, needs: Amounts, rows: Rows) -> None:
        """A class is about to get room on these nodes."""
        self._left = self._left.copy() if self._left is self._free else self._left
        self._left[:, rows] -= np.maximum(needs[1:, None], 0.0)

    def rows(self, base: RowScores | None, *, everywhere: bool) -> Rows:
        """The nodes that ``base`` lets pods run on, or those of them that changed."""
        key = 2 * id(base) + everywhere
        found = self._rows.get(key)
        if found is None:
            fits = self._fits(base)
            found = self._rows[key] = np.flatnonzero(fits if everywhere else fits & self.is_dirty)
        return found

    def _fits(self, base: RowScores | None) -> Mask:
        if base is None:
            return self._nodes.is_node
        try:
            base.refresh()
        except Exception:  # a plugin's: the next decision says so
            return self._nodes.is_node
        return base.fits

    def _note_held(self, rows: Rows) -> None:
        if not self._nodes.holds_room():
            self._held = {}
            return
        for row in rows.tolist():
            held = self._nodes.usable_on(self._nodes.name(row))
            if held:
                self._held[row] = [usage.request for usage in held]
            else:
                self._held.pop(row, None)
