"""A circuit breaker of somebody who is asked for something; its caller passes the time.

1. Closed: every call is let through.
2. A call that timed out or found nobody opens it. Nobody is let through.
3. Every so often a probe (no pod depends on it) asks whether the server answers
   at all. If it does, the breaker is half open: one call is let through.
4. That call decides: answered, it closes; else it opens, and waits twice as long
   before the next probe, up to a bound.
5. A server that registers anew has most likely just begun to serve: it is probed
   at once, and the pauses begin anew.
"""

from __future__ import annotations

from enum import Enum

from koord_service.backoff import exponential


class BreakerState(Enum):
    """Values are what the metric shows."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """The state of one server; times are seconds of one clock.

    ``first_pause`` and ``longest_pause`` are the seconds before a probe of one that fails.
    """

    def __init__(self, first_pause: float, longest_pause: float) -> None:
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self.state = BreakerState.CLOSED
        self._pauses = 1
        self.probe_at = 0.0
        """Time of the next probe, while it is open."""
        self._tickets = 0
        # The ticket of the one call let through when half open.
        self._trial = 0

    @property
    def admits(self) -> bool:
        """True if a call may be made now."""
        return self.state is not BreakerState.OPEN and not self._trial

    def admit(self) -> int:
        """A ticket if a call may be made now, else 0.

        It has to be given back with ``withdrawn``, whatever becomes of the call; ``answered`` or
        ``failed`` come before that, where something was learnt.
        """
        if not self.admits:
            return 0
        self._tickets += 1
        if self.state is BreakerState.HALF_OPEN:
            self._trial = self._tickets
        return self._tickets

    def answered(self) -> None:
        """A call was answered, whatever the answer."""
        self.state = BreakerState.CLOSED
        self._pauses = 1
        self._trial = 0

    def failed(self, now: float) -> bool:
        """A call was not answered; True if that opened the breaker."""
        was = self.state
        if was is BreakerState.HALF_OPEN:
            self._pauses += 1
        self._open(now)
        return was is not BreakerState.OPEN

    def withdrawn(self, ticket: int) -> None:
        """The call with this ticket is over; if nothing was learnt, another may be the trial."""
        if ticket == self._trial:
            self._trial = 0

    def probe_due(self, now: float) -> bool:
        """True if the next probe of the server is due."""
        return self.state is BreakerState.OPEN and now >= self.probe_at

    def probe_failed(self, now: float) -> None:
        """The server did not answer a probe."""
        if self.state is BreakerState.OPEN:
            self._pauses += 1
            self._open(now)

    def probe_answered(self) -> bool:
        """The server answers again, or a late answer came from it; True if that is news."""
        if self.state is not BreakerState.OPEN:
            return False
        self.state = BreakerState.HALF_OPEN
        return True

    def hurry(self, now: float) -> bool:
        """The server gave a sign of having begun anew; True if it is to be probed now."""
        if self.state is not BreakerState.OPEN:
            return False
        self._pauses = 1
        self._open(now)
        return True

    def _open(self, now: float) -> None:
        self.state = BreakerState.OPEN
        self.probe_at = now + exponential(self._first_pause, self._longest_pause, self._pauses)
        self._trial = 0
