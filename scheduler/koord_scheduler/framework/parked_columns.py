"""Needs of parked classes, in columns: one look at all of them costs as much as one of a few.

No IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from koord_scheduler.framework.queue.scheduling_queue import ClassQueue
from koord_scheduler.framework.row_scores import RowScores
from koord_scheduler.state.arrays import Amounts, Codes, Mask, lengthened
from koord_scheduler.state.resources import Request

MOST_LINES = 32
"""Resources that are compared; what classes need of others is found out by asking plugins."""
MOST_GROUPS = 32
"""Sets of nodes; classes of others are compared with all nodes."""
_FEWEST = 64
_NEVER = -1


class ParkedNeeds(NamedTuple):
    """Conditions before a parked class may fit.

    ``amounts`` have to be free on one node, of those that ``base`` lets its pods run on (``None``:
    any). With ``everywhere`` that may be any of these nodes, otherwise one that has changed: no
    other one can have become better. ``row`` is that of the node with its victims, if there are
    any: it may fit once that changes. ``is_sure``: nothing can be said, so it has to be looked at.
    It is not looked at before ``due``.
    """

    amounts: Request = ()
    base: RowScores | None = None
    everywhere: bool = True
    row: int = _NEVER
    is_sure: bool = False
    due: float = 0.0


NOTHING_HELPS = ParkedNeeds(due=float("inf"))


class ParkedColumns:
    """Parked classes by slot, with what they need.

    ``names`` are the resources that are compared, by line; line 0 says whether there is a node
    at all. A ``code`` is that of a set of nodes: twice its place in ``bases``, one more for classes
    that look everywhere.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bases: list[RowScores | None] = [None]
        self._users = [1]
        self._queues: list[ClassQueue | None] = []
        self._free: list[int] = []
        self._needs: Amounts = np.zeros((1, 0))
        self._turns: Amounts = np.zeros((3, 0))
        self._due: Amounts = np.zeros(0)
        self._codes: Codes = np.zeros(0, np.intp)
        self._rows: Codes = np.zeros(0, np.intp)
        self._round: Codes = np.zeros(0, np.intp)
        self._is_sure: Mask = np.zeros(0, np.bool_)

    def __len__(self) -> int:
        """Number of classes."""
        return len(self._queues) - len(self._free)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of lines and codes."""
        return len(self._needs), 2 * len(self.bases)

    def codes(self) -> list[int]:
        """Those that some class has."""
        used = np.unique(self._codes[: len(self._queues)])
        return [int(code) for code in used]

    def put(self, queue: ClassQueue, needs: ParkedNeeds, seen: int) -> None:
        """A class is parked, or needs something else; it was looked at in the round ``seen``."""
        slot = self._slot_of(queue)
        turn = queue.heap[0][0]
        self._turns[:, slot] = turn
        self._due[slot], self._rows[slot] = needs.due, needs.row
        self._is_sure[slot], self._round[slot] = needs.is_sure, seen
        self._needs[1:, slot] = -np.inf  # of what it does not need a node may lack some
        for name, amount in needs.amounts:
            line = self._line(name)
            if line is not None:
                self._needs[line, slot] = amount
        before, code = int(self._codes[slot]), 2 * self._group(needs.base) + needs.everywhere
        self._codes[slot] = code
        self._leave(before // 2)

    def drop(self, queue: ClassQueue) -> None:
        """A class is not parked any more."""
        slot, queue.slot = queue.slot, _NEVER
        if slot == _NEVER:
            return
        self._queues[slot] = None
        self._due[slot] = np.inf
        self._leave(int(self._codes[slot]) // 2)
        self._codes[slot] = 0
        self._free.append(slot)

    def all_sure(self) -> None:
        """Nothing can be said of any class before it is looked at again."""
        self._is_sure[:] = True

    def needs_of(self, queue: ClassQueue) -> tuple[Amounts, int]:
        """Needs of a class, by line, and its code."""
        return self._needs[:, queue.slot], int(self._codes[queue.slot])

    def is_sure(self, queue: ClassQueue, is_dirty: Mask) -> bool:
        """True if a class has to be looked at whatever is free."""
        row = int(self._rows[queue.slot])
        return bool(self._is_sure[queue.slot]) or (row >= 0 and bool(is_dirty[row]))

    def seen(self, queue: ClassQueue) -> int:
        """Return the round in which a class was looked at last, if it is here."""
        return int(self._round[queue.slot]) if queue.slot != _NEVER else 0

    def looked_at(self, queue: ClassQueue, number: int) -> None:
        """A class was looked at in this round."""
        self._round[queue.slot] = number

    def first(
        self, room: Amounts, is_dirty: Mask, number: int, now: float, most: int
    ) -> Sequence[ClassQueue]:
        """The first classes in turn that may fit and were not looked at in this round.

        ``room`` is the most that is free of each line on one node of each code.
        """
        length = len(self._queues)
        may_fit = np.ones(length, np.bool_)
        codes = self._codes[:length]
        for line, most_free in zip(self._needs, room, strict=True):
            may_fit &= line[:length] <= most_free[codes]
        may_fit |= self._is_sure[:length]
        rows = self._rows[:length]
        may_fit |= (rows >= 0) & is_dirty[rows]
        may_fit &= (self._round[:length] < number) & (self._due[:length] <= now)
        slots = self._first_in_turn(np.flatnonzero(may_fit), most)
        return [one for slot in slots.tolist() if (one := self._queues[slot]) is not None]

    def _first_in_turn(self, slots: Codes, most: int) -> Codes:
        found = [slots[:0]]
        for column in self._turns:
            if len(slots) <= most:
                break
            values = column[slots]
            edge = np.partition(values, most - 1)[most - 1]
            found.append(slots[values < edge])
            slots, most = slots[values == edge], most - len(found[-1])
        chosen = np.concatenate([*found, slots[:most]])
        order: Codes = chosen[np.lexsort(self._turns[::-1, chosen])]
        return order

    def _slot_of(self, queue: ClassQueue) -> int:
        if queue.slot == _NEVER:
            if not self._free:
                self._free = [len(self._queues)]
                self._queues.append(None)
                if len(self._queues) > len(self._due):
                    self._lengthen(max(_FEWEST, 2 * len(self._due)))
            queue.slot = self._free.pop()
            self._queues[queue.slot] = queue
            self._users[0] += 1
        return queue.slot

    def _lengthen(self, length: int) -> None:
        self._needs = lengthened(self._needs, length, 0)
        self._turns = lengthened(self._turns, length, 0)
        self._due = lengthened(self._due, length, np.inf)
        self._codes = lengthened(self._codes, length, 0)
        self._rows = lengthened(self._rows, length, _NEVER)
        self._round = lengthened(self._round, length, 0)
        self._is_sure = lengthened(self._is_sure, length, fill=False)

    def _line(self, name: str) -> int | None:
        """The line of a resource; ``None`` if there are too many."""
        if name not in self.names:
            if len(self.names) == MOST_LINES:
                return None
            self.names.append(name)
            new = np.full((1, self._needs.shape[1]), -np.inf)
            self._needs = np.concatenate((self._needs, new))
        return 1 + self.names.index(name)

    def _group(self, base: RowScores | None) -> int:
        place = next((at for at, one in enumerate(self.bases) if one is base), None)
        if place is None:
            place = next((at for at, users in enumerate(self._users) if not users), None)
        if place is None:
            if len(self.bases) == MOST_GROUPS:
                place = 0
            else:
                place = len(self.bases)
                self.bases.append(base)
                self._users.append(0)
        elif not self._users[place]:
            self.bases[place] = base
        self._users[place] += 1
        return place

    def _leave(self, place: int) -> None:
        self._users[place] -= 1
        if not self._users[place]:
            self.bases[place] = None
