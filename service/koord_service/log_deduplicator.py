"""Log a problem once, not every second for as long as it lasts."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Hashable

from koord_service.repetitions import Repetitions


class LogDeduplicator:
    """``Repetitions`` of log lines, safe to use from any thread."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._lines = Repetitions(seconds)
        self._lock = threading.Lock()

    def is_new(self, *words: Hashable) -> bool:
        """Return whether to log a line; it counts as logged from now on."""
        return self.count(words) > 0

    def count(self, key: Hashable, now: float = 0.0) -> int:
        """Return how many events the line stands for that is to be logged now; 0: log none."""
        with self._lock:
            return self._lines.count(key, now)

    def take(self, key: Hashable) -> int:
        """Return how many repetitions of a line are not logged; they count as logged from now."""
        with self._lock:
            return self._lines.take(key)

    def clear(self) -> None:
        """All is well again: whatever comes next is new."""
        with self._lock:
            self._lines.clear()


class LastingProblems:
    """Problems by what has them, in one thread: logged when they begin or change, and never twice.

    Unlike with ``LogDeduplicator`` one that ended and begins again is new.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, str | bool] = {}

    def is_new(self, owner: Hashable, problem: str | bool) -> bool:
        """Return whether to log the problem of an owner; "" or ``False`` for none any more."""
        if not problem:
            self._known.pop(owner, None)
            return False
        before, self._known[owner] = self._known.get(owner), problem
        return problem != before

    def keep(self, owners: Collection[Hashable]) -> None:
        """Forget all others."""
        self._known = {owner: self._known[owner] for owner in self._known if owner in owners}
