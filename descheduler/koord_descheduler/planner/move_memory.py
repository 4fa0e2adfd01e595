"""Memory of moves, so that no pod goes to and fro. No IO."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from koord_descheduler.planner.move import Move


class _Left(NamedTuple):
    at: float
    owner: str
    node: str


class MoveMemory:
    """Nodes that pods of owners left in the last ``seconds``; times are of one clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._order: deque[_Left] = deque()
        self._last: dict[tuple[str, str], float] = {}

    def add(self, move: Move, now: float) -> None:
        """A pod leaves its node."""
        if not move.pod.owner:
            return
        self._order.append(_Left(now, move.pod.owner, move.source))
        self._last[move.pod.owner, move.source] = now
        self._expire(now)

    def left(self, owner: str, node: str, now: float) -> float | None:
        """Seconds since a pod of an owner left a node; ``None``: not lately."""
        at = self._last.get((owner, node))
        return None if at is None or now - at > self._seconds else now - at

    def _expire(self, now: float) -> None:
        while self._order and now - self._order[0].at > self._seconds:
            left = self._order.popleft()
            if self._last.get((left.owner, left.node)) == left.at:
                del self._last[left.owner, left.node]
