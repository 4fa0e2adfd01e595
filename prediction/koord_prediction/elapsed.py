"""Time as it passes, whatever the wall clock is set to. No IO."""

from __future__ import annotations


class ElapsedTime:
    """Times of a wall clock, without its jumps.

    A step back, or of more than ``most`` seconds, is a clock that was set: no time has passed, and
    from then on the clock is ``ahead``.
    """

    def __init__(self, most: float) -> None:
        self.ahead = 0.0
        self._most = most
        self._newest: float | None = None

    def at(self, wall: float) -> float:
        """The time that a reading stands for, in seconds since the epoch as the first was."""
        now = wall - self.ahead
        if self._newest is not None and not 0 <= now - self._newest <= self._most:
            self.ahead, now = wall - self._newest, self._newest
        self._newest = now
        return now
