"""The share of its time that the scheduler spends on parked pods while others have their turn."""

from __future__ import annotations

from collections.abc import Callable

SHARE = 0.2
"""Of all time, for looks at parked classes and for trying those again that do not fit."""
MOST_SECONDS = 0.01
"""As much is saved up at most, and spent in one go."""


class WakeAllowance:
    """A budget in seconds: grows with time, and shrinks with what is ``spent``.

    A look takes as long as it takes: what it takes too much is missing the next time.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._saved = MOST_SECONDS
        self._at = monotonic()
        self._until = self._at
        self._may_retry = False

    def begin(self, least: float = 0.0) -> None:
        """Looks begin now; ``least``: so many seconds are there in any case."""
        now = self._monotonic()
        self._saved = min(MOST_SECONDS, self._saved + SHARE * (now - self._at))
        self._at = now
        self._until = now + max(self._saved, least)
        self._may_retry = True

    def end(self) -> None:
        """Looks have ended."""
        self.spend(self._monotonic() - self._at)

    def spend(self, seconds: float) -> None:
        """So much was spent."""
        self._saved -= seconds

    def may_look(self) -> bool:
        """Return whether there is time for one more look."""
        return self._monotonic() < self._until

    def may_retry(self) -> bool:
        """Return whether a class may be tried again: one at a time, while there is time."""
        allowed, self._may_retry = self._may_retry and self.may_look(), False
        return allowed
