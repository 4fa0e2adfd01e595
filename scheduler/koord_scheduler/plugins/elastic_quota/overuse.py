"""Since when quotas use more than they may, and when pods have to go for it. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class RevokeRules(NamedTuple):
    """Seconds for which a quota may use too much, and between two looks at all quotas."""

    delay: float
    interval: float


class OveruseClock:
    """Times are monotonic seconds."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._since: dict[str, float] = {}

    def due(self, over: Iterable[str], now: float) -> list[str]:
        """Of the quotas that use too much now, those that did so all the time for too long.

        Their time begins anew then.
        """
        self._since = {name: self._since.get(name, now) for name in over}
        found = [name for name, since in self._since.items() if now - since > self._delay]
        for name in found:
            self._since[name] = now
        return found
