"""Repetitions of what is logged or reported: written once, then once in a while with their number.

No IO.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

_CAPACITY = 2048
"""Some 200 bytes each: their text is not kept."""


class Repetitions:
    """Remembers what was written lately; what comes again within ``seconds`` is a repetition.

    Each costs its hash: two of which one hides the other come once in 10^15. Those that did not
    come for longest are forgotten first.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        self._known: OrderedDict[int, tuple[float, int]] = OrderedDict()

    def count(self, key: Hashable, now: float = 0.0) -> int:
        """Return how many the line stands for that is to be written now; 0: write none.

        ``now`` is monotonic seconds.
        """
        line = hash(key)
        at, repeated = self._known.pop(line, (-math.inf, 0))
        is_repetition = now - at < self._seconds
        self._known[line] = (at, repeated + 1) if is_repetition else (now, 0)
        if len(self._known) > _CAPACITY:
            self._known.popitem(last=False)
        return 0 if is_repetition else repeated + 1

    def take(self, key: Hashable) -> int:
        """Return how many repetitions are not written, as if a line stood for them from now on."""
        line = hash(key)
        at, repeated = self._known.get(line, (0.0, 0))
        if repeated:
            self._known[line] = at, 0
        return repeated

    def clear(self) -> None:
        """All is well again: whatever comes next is new."""
        self._known.clear()
