"""Limit of concurrent requests, in all and for each client. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


class ConcurrencyLimit:
    """At most ``total`` at once, and ``each`` of the same caller; nobody waits for a place."""

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._callers: Counter[Hashable] = Counter()
        self.taken = 0

    def enter(self, caller: Hashable) -> bool:
        """Take a place, to be left again; ``False`` if there is none."""
        if self.taken >= self._total or self._callers[caller] >= self._each:
            if not self._callers[caller]:
                del self._callers[caller]
            return False
        self._callers[caller] += 1
        self.taken += 1
        return True

    def leave(self, caller: Hashable) -> None:
        """Give the place back."""
        self.taken -= 1
        self._callers[caller] -= 1
        if not self._callers[caller]:
            del self._callers[caller]
