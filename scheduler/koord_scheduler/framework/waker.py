"""Turns of parked classes that may fit by now. No IO.

Classes are looked at in rounds, the first one in turn first, each at most once a round, over as
many calls as it takes. A class that may fit now and was not looked at in this round comes before
all that come after it in turn; so none waits for longer than a round.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

import numpy as np

from koord_scheduler.framework.parked_columns import ParkedColumns, ParkedNeeds
from koord_scheduler.framework.parked_room import ParkedRoom
from koord_scheduler.framework.queue.scheduling_queue import ClassQueue, SchedulingQueue
from koord_scheduler.framework.wake_budget import WakeBudget
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState

FLUSH_SECONDS = 60.0
"""Time after which a parked class is tried again anyway: victims may have come since."""
_AT_ONCE = 16
"""Classes that are taken from the columns in one go."""
NOWHERE: Rows = np.zeros(0, np.intp)


class Look(NamedTuple):
    """Result of a look at a parked class: where it may fit, or what it needs."""

    may_fit: bool
    needs: ParkedNeeds = ParkedNeeds()
    rows: Rows = NOWHERE


class WakeHost(Protocol):
    """The scheduler, as far as parked classes are concerned."""

    nodes: ClusterState
    queue: SchedulingQueue

    def look(self, queue: ClassQueue, now: float) -> Look:
        """Ask plugins about a parked class."""
        ...

    def needs(self, queue: ClassQueue, now: float) -> ParkedNeeds:
        """Needs of a class that has just been parked."""
        ...


class Waker:
    """Looks at parked classes; ``is_unfinished`` if there are more that may fit."""

    def __init__(self, host: WakeHost) -> None:
        self._host = host
        self._columns = ParkedColumns()
        self._room = ParkedRoom(host.nodes)
        self._round = 1
        self._in_round = False
        self._late: deque[ClassQueue] = deque()
        self._parked: deque[tuple[float, ClassQueue]] = deque()
        self._backing = host.nodes.backing.classes
        self._version = host.nodes.resources.version
        self.is_unfinished = False

    def wake(self, now: float, budget: WakeBudget) -> int:
        """Let classes try again that may fit by now; returns how many."""
        self._enter(now, budget)
        self._room.absorb(self._columns.names, in_round=self._in_round)
        backing = self._host.nodes.backing.classes
        version = self._host.nodes.resources.version
        if backing is not self._backing or version != self._version:
            self._columns.all_sure()  # other resources have to be free on nodes
            self._backing, self._version = backing, version
        woken = self._retry(now, budget)
        while True:
            woken += self._look(now, budget)
            # What changed during a round that ends here is looked at now.
            if woken or self._in_round or not self._room.is_dirty.any():
                return woken

    def _enter(self, now: float, budget: WakeBudget) -> None:
        """Take over which classes are parked, and which are not any more."""
        self._late.extend(self._host.queue.take_changed())
        while self._late:
            queue = self._late[0]
            is_parked = queue.is_parked and queue.head() is not None
            if is_parked and not budget.may_look():
                return
            self._late.popleft()
            if not is_parked:
                self._columns.drop(queue)
            else:
                needs = self._host.needs(queue, now)
                is_sure = needs.is_sure or queue.has_news
                seen = 0 if queue.has_news else max(queue.woken_in, self._columns.seen(queue))
                queue.has_news = False
                if queue.slot < 0:
                    self._parked.append((queue.parked_at, queue))
                self._columns.put(queue, needs._replace(is_sure=is_sure), seen)

    def _retry(self, now: float, budget: WakeBudget) -> int:
        """Let classes try again that were parked for long, those first that were for longest."""
        woken = 0
        while self._parked:
            parked_at, queue = self._parked[0]
            is_parked = queue.slot >= 0
            is_due = is_parked and queue.parked_at == parked_at
            if is_due and (now - parked_at < FLUSH_SECONDS or not budget.may_retry()):
                break
            self._parked.popleft()
            if is_due:
                self._wake(queue)
                woken += 1
            elif is_parked:  # it was tried since
                self._parked.append((queue.parked_at, queue))
        return woken

    def _look(self, now: float, budget: WakeBudget) -> int:
        columns, room, woken = self._columns, self._room, 0
        most = room.most(columns)
        while queues := columns.first(most, room.is_dirty, self._round, now, _AT_ONCE):
            for queue in queues:
                if not queue.is_parked:
                    self._columns.drop(queue)
                    continue
                is_sure = columns.is_sure(queue, room.is_dirty)
                # Those woken may leave no room for a class: nobody comes before it then.
                if not budget.may_look() or not (is_sure or self._waits_for_none(queue)):
                    self.is_unfinished = self._in_round = True
                    return woken
                if is_sure or self._has_room(queue):
                    woken += self._look_at(queue, now)
                else:
                    columns.looked_at(queue, self._round)
            if columns.shape != most.shape:
                most = room.most(columns)
        self._in_round = False
        self._round += 1
        room.end_round()
        self.is_unfinished = bool(self._late) or bool(room.is_dirty.any())
        return woken

    def _waits_for_none(self, queue: ClassQueue) -> bool:
        """True if the woken classes leave a class what it needs, if it is there."""
        return self._has_room(queue, left=True) or not self._has_room(queue)

    def _has_room(self, queue: ClassQueue, *, left: bool = False) -> bool:
        """True if a node has what a class needs, or with ``left`` beside the woken classes."""
        columns, room = self._columns, self._room
        needs, code = columns.needs_of(queue)
        rows = room.rows(columns.bases[code // 2], everywhere=bool(code % 2))
        return room.has(needs, rows, left=left)

    def _look_at(self, queue: ClassQueue, now: float) -> bool:
        columns, found = self._columns, self._host.look(queue, now)
        if not found.may_fit:
            columns.put(queue, found.needs, self._round)
            self._room.measure(columns.names)
            return False
        if len(found.rows):
            needs, _ = columns.needs_of(queue)
            self._room.take(needs, found.rows[: queue.size])
        self._wake(queue)
        return True

    def _wake(self, queue: ClassQueue) -> None:
        self._columns.drop(queue)
        queue.woken_in = self._round
        self._host.queue.unpark(queue.key)
