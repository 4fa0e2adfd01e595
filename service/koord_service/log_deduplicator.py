"""Repetitions of what is logged or reported: once, or once in a while with their number. No IO."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable

_CAPACITY = 2048
"""Some 200 bytes each: their text is not kept."""


class LogDeduplicator:
    """Remembers what was said lately; safe to use from any thread.

    What is said again within ``seconds`` is a repetition. Each costs its hash: two of which one
    hides the other come once in 10^15. Those that were not said for longest are forgotten first.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        self._said: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, *words: Hashable) -> bool:
        """Return whether this is to be said; it counts as said from now on. For no ``seconds``."""
        return self.count(words, 0.0) > 0

    def count(self, key: Hashable, now: float) -> int:
        """Return how many the line stands for that is to be written now; 0: write none.

        ``now`` is monotonic seconds.
        """
        line = hash(key)
        with self._lock:
            at, repeated = self._said.pop(line, (-math.inf, 0))
            is_repetition = now - at < self._seconds
            self._said[line] = (at, repeated + 1) if is_repetition else (now, 0)
            if len(self._said) > _CAPACITY:
                self._said.popitem(last=False)
        return 0 if is_repetition else repeated + 1

    def clear(self) -> None:
        """All is well again: whatever comes next is new."""
        with self._lock:
            self._said.clear()
