"""Order and times of the keys of a work queue. No IO."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

_NEVER = float("-inf")


@dataclass(eq=False)
class WorkSchedule:
    """Keys and when each is due, in seconds of any clock that never goes back.

    A waiting key is in here once, at its earliest time (client-go's dirty set). A key that is
    being handled is not given out again before it is ``done`` (its processing set); if it is
    added meanwhile, it comes once more after that.
    """

    _due: dict[str, float] = field(default_factory=dict)
    _heap: list[tuple[float, int, str]] = field(default_factory=list)
    _processing: set[str] = field(default_factory=set)
    _not_before: dict[str, float] = field(default_factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        """Number of waiting keys, due or not."""
        return len(self._due)

    @property
    def processing(self) -> int:
        """Number of keys that are being handled."""
        return len(self._processing)

    def add(self, key: str, at: float) -> None:
        """Have a key handled, not before ``at``."""
        at = max(at, self._not_before.get(key, _NEVER))
        if at >= self._due.get(key, float("inf")):
            return
        self._due[key] = at
        if key not in self._processing:
            self._push(key)

    def take(self, now: float) -> str | None:
        """Take the key that has been due longest; ``None`` if none is due."""
        self._drop_stale_entries()
        if not self._heap or self._heap[0][0] > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._due[key]
        self._processing.add(key)
        return key

    def done(self, key: str) -> None:
        """Record success."""
        self._not_before.pop(key, None)
        self._release(key)

    def failed(self, key: str, at: float) -> None:
        """Record a failure: the key is due at ``at``, and not earlier if it is added."""
        self._not_before[key] = at
        self._due[key] = at
        self._release(key)

    def bring_forward(self, key: str, at: float) -> None:
        """Have a key that failed due at ``at`` already; not one that is being handled."""
        if key in self._not_before and key not in self._processing:
            self._not_before[key] = at
            self.add(key, at)

    def next_at(self) -> float | None:
        """Return when the next key is due; ``None`` if none waits to be taken."""
        self._drop_stale_entries()
        return self._heap[0][0] if self._heap else None

    def _release(self, key: str) -> None:
        self._processing.discard(key)
        if key in self._due:
            self._push(key)

    def _push(self, key: str) -> None:
        self._count += 1  # those due at the same time come in the order in which they were added
        heapq.heappush(self._heap, (self._due[key], self._count, key))

    def _drop_stale_entries(self) -> None:
        """Drop entries of keys that were added again for an earlier time, or are taken."""
        while self._heap:
            at, _, key = self._heap[0]
            if key not in self._processing and self._due.get(key) == at:
                return
            heapq.heappop(self._heap)
