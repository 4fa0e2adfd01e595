"""Room that is held for a gang group which has waited long, so that small pods do not starve it.

Its pods are nominated for nodes: no pod that is not more important gets there what they need, so
that as pods end the room for all of them adds up. One group at a time has room held, as long as
within its waiting time more of that room becomes free; else others may have their turn. No IO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.nominations import Nomination, Nominations
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod, Turn
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState

HOLD_AFTER_SECONDS = 60.0
"""For so long a group that does not fit waits before room is held for it."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """``lack`` was left of what is held when it was looked at last; the next time is ``until``."""

    group_id: str
    turn: Turn
    pods: Sequence[str]
    seconds: float
    until: float
    lack: float


class GangHold:
    """Holds room by ``nominations``; times are monotonic seconds."""

    def __init__(
        self,
        nodes: ClusterState,
        nominations: Nominations,
        scores: Callable[[QueuedPod], ClassScores],
    ) -> None:
        self._nodes = nodes
        self._nominations = nominations
        self._scores = scores
        self._holder: _Holder | None = None

    def is_for(self, group_id: str) -> bool:
        """True if capacity is reserved for a group."""
        return self._holder is not None and self._holder.group_id == group_id

    def hold(
        self,
        group_id: str,
        pods: Sequence[QueuedPod],
        now: float,
        seconds: float,
        rows: Callable[[], Rows | None],
    ) -> bool:
        """Hold room for ``pods`` of a group; returns whether it is held.

        That ends if in so many ``seconds`` no more of it becomes free. ``rows`` returns those where
        that makes sense, ``None`` for all.
        It is not if they would fit nowhere even without all other pods, or if room is held for a
        group whose turn is first.
        """
        holder, turn, until = self._holder, pods[0].turn, now + seconds
        if holder is not None and holder.group_id != group_id and holder.turn <= turn:
            return False
        if holder is not None and holder.group_id == group_id:
            if all(self._is_held(key) for key in holder.pods):
                return True
            until = holder.until
        self.let_go()
        found = self._places(pods, rows())
        if found is None:
            return False
        for pod, row in zip(pods, found, strict=True):
            node = self._nodes.name(row)
            one = Nomination(pod.key, node, pod.priority, pod.waiting.usage)
            self._nominations.set(one)
        keys = [one.key for one in pods]
        self._holder = _Holder(group_id, turn, keys, seconds, until, self._lack(keys))
        return True

    def expire(self, now: float) -> str:
        """Let go of room that does not become free; returns the group that loses it, or ""."""
        holder = self._holder
        if holder is None or now < holder.until:
            return ""
        lack = self._lack(holder.pods)
        if lack < holder.lack:
            self._holder = replace(holder, until=now + holder.seconds, lack=lack)
            return ""
        self.let_go()
        return holder.group_id

    def let_go(self) -> None:
        """Hold no room any more."""
        holder, self._holder = self._holder, None
        for key in holder.pods if holder is not None else ():
            self._nominations.remove(key)

    def _lack(self, pods: Sequence[str]) -> float:
        """Return how much of the reserved capacity is still taken, as the sum of its parts."""
        held = Counter[tuple[str, int]]()
        for key in pods:
            one = self._nominations.get(key)
            if one is None or (row := self._nodes.row(one.node)) is None:
                continue
            for name, amount in one.usage.request:
                held[name, row] += int(amount)
        resources = self._nodes.resources
        lack = 0.0
        for (name, row), amount in held.items():
            at = resources.column(name), row
            free = float(resources.allocatable[at] - resources.requested[at])
            lack += max(0.0, amount - free) / max(amount, 1)
        return lack

    def _is_held(self, key: str) -> bool:
        one = self._nominations.get(key)
        row = self._nodes.row(one.node) if one is not None else None
        return row is not None and bool(self._nodes.is_node[row])

    def _places(self, pods: Sequence[QueuedPod], rows: Rows | None) -> list[int] | None:
        """A row for each pod: those with most room now, where they fit once others have left."""
        room, found = _Room(self._nodes), list[int]()
        allowed: dict[tuple[str, object], Mask] = {}
        for pod in pods:
            key = pod.scores_key
            if key not in allowed:
                allowed[key] = self._curable(pod, rows)
            row = room.take(pod, allowed[key])
            if row is None:
                return None
            found.append(row)
        return found

    def _curable(self, pod: QueuedPod, rows: Rows | None) -> Mask:
        """Of each row, whether it is one of these, and nothing but other pods keeps a pod off."""
        rows = np.flatnonzero(self._nodes.is_node) if rows is None else rows
        limits = self._scores(pod).limits(rows)
        found = np.zeros(len(self._nodes), np.bool_)
        found[rows] = limits.is_resolvable & ~limits.is_fixed
        return found


class _Room:
    """Capacity of nodes, with their pods and without, less what is reserved already."""

    def __init__(self, nodes: ClusterState) -> None:
        self._resources = resources = nodes.resources
        self._free: Amounts = resources.allocatable - resources.requested
        self._whole: Amounts = resources.allocatable.copy()

    def take(self, pod: QueuedPod, allowed: Mask) -> int | None:
        """Take a pod's room of the row with the most room for its like; ``None``: of none."""
        request = pod.waiting.usage.request
        numbers = self._resources.columns([name for name, _ in request]).now
        amounts = np.array([[amount] for _, amount in request]).reshape(-1, 1)
        fits = allowed & np.logical_and.reduce(self._whole[numbers] >= amounts)
        if not fits.any():
            return None
        slots = np.min(self._free[numbers] / amounts, axis=0, initial=np.inf)
        row = int(np.where(fits, slots, -np.inf).argmax())
        self._free[numbers, row] -= amounts[:, 0]
        self._whole[numbers, row] -= amounts[:, 0]
        return row
