"""Log a problem once, not every second for as long as it lasts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

_CAPACITY = 2048


class LogDeduplicator:
    """Remembers the latest log lines, bounded in number; safe to use from any thread.

    A line costs its hash: two lines of which one hides the other come once in 10^15.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, *words: Hashable) -> bool:
        """Whether this line was not logged lately; it counts as logged from now on."""
        line = hash(words)
        with self._lock:
            if line in self._lines:
                self._lines.move_to_end(line)
                return False
            self._lines[line] = None
            if len(self._lines) > _CAPACITY:
                self._lines.popitem(last=False)
            return True
