"""Memory of moves, so that no pod goes to and fro. No IO."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from koord_descheduler.planner.move import Move


class PastMove(NamedTuple):
    """A pod of an ``owner`` (its uid) left a node."""

    at: float
    owner: str
    node: str


class MoveMemory:
    """Nodes that pods of owners left in the last ``seconds``; times are of one clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._order: deque[PastMove] = deque()
        self._last: dict[tuple[str, str], float] = {}

    def add(self, move: Move, now: float) -> None:
        """A pod leaves its node."""
        self._expire(now)
        self.remember(PastMove(now, move.pod.owner, move.source))

    def remember(self, past: PastMove) -> None:
        """A pod has left its node; one that is known already changes nothing."""
        key = past.owner, past.node
        if past.owner and past.at > self._last.get(key, -math.inf):
            self._order.append(past)
            self._last[key] = past.at

    def left(self, owner: str, node: str, now: float) -> float | None:
        """Seconds since a pod of an owner left a node; ``None``: not lately."""
        at = self._last.get((owner, node))
        return None if at is None or now - at > self._seconds else now - at

    def _expire(self, now: float) -> None:
        while self._order and now - self._order[0].at > self._seconds:
            left = self._order.popleft()
            if self._last.get((left.owner, left.node)) == left.at:
                del self._last[left.owner, left.node]
