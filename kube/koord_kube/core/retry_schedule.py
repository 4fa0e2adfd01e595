"""Times of retries of failed requests to one API server: all of a program together. No IO.

1. A failure waits for its own backoff, and never less than the server asked for (Retry-After).
2. A success of any request ends the waits of all others: the server is back. They spread over
   half a second, so that they do not all arrive at once.
3. While nobody succeeds, one of those that wait goes after two seconds at most, however long the
   outage has lasted, so that its end is noticed; then rule 2 holds for the others.
4. Where the server is there and a request fails all the same, that is its own affair: it is
   left alone by rules 2 and 3 for twice as long with each such failure, as its backoff says too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from koord_service.backoff import exponential

_NEVER = float("-inf")
_NO_PROBE = float("inf")
_WORTHWHILE = 0.05  # seconds; nobody is woken for less


@dataclass(frozen=True, slots=True)
class RetryTiming:
    """Seconds. ``first`` and ``cap`` bound how long rule 4 leaves a failure alone.

    ``probe`` is the longest pause of all during an outage (infinite: others find out), ``spread``
    the time over which those that wait come back after it.
    """

    first: float = 0.8
    cap: float = 30.0
    probe: float = 2.0
    spread: float = 0.5


@dataclass(eq=False, slots=True)
class RequestRetry:
    """One thing that is tried until it succeeds; then the next thing has one of its own.

    All times are of one steady clock.
    """

    due: float = _NEVER
    """Time of the next attempt."""
    not_before: float = _NEVER
    """Time before which no success of other requests brings the attempt forward."""
    failed_at: float = _NEVER
    answered: int = 0
    """Failures in a row while the server was there."""


class RetrySchedule:
    """Those that wait for their next try."""

    def __init__(self, chance: Callable[[], float], timing: RetryTiming) -> None:
        """``chance`` gives numbers from 0 to 1."""
        self._chance = chance
        self._timing = timing
        self._waiting: set[RequestRetry] = set()
        self._unhelped: set[RequestRetry] = set()
        self._succeeded_at = _NEVER

    def failed(
        self,
        retry: RequestRetry,
        now: float,
        wait: float,
        *,
        retry_after: float = 0.0,
        was_answered: bool = False,
    ) -> bool:
        """A try failed: the next is due in ``wait`` seconds, or earlier by the rules above.

        Returns whether another one's next try is due earlier by that.

        ``retry_after`` is what the server asked for, ``was_answered`` says that it did answer:
        it refused.
        """
        is_first = retry.failed_at == _NEVER
        if was_answered or (not is_first and self._succeeded_at >= retry.failed_at):
            retry.answered += 1
        alone = exponential(self._timing.first, self._timing.cap, retry.answered + 1)
        retry.failed_at = now
        retry.due = now + max(wait, retry_after)
        retry.not_before = now + max(retry_after, alone if retry.answered else 0.0)
        self._waiting.add(retry)
        self._unhelped.add(retry)
        return self._plan_probe(now)

    def succeeded(self, now: float) -> Sequence[RequestRetry]:
        """Some request succeeded; returns those whose next try is due earlier by that."""
        self._succeeded_at = now
        if not self._unhelped:
            return ()
        # A second success would not help them further: each costs no more than those that failed
        # since the one before.
        unhelped, self._unhelped = self._unhelped, set()
        spread = self._timing.spread
        return [
            retry for retry in unhelped if self._bring_forward(retry, now + spread * self._chance())
        ]

    def left(self, retry: RequestRetry, now: float) -> bool:
        """It waits no more; returns whether another one's next try is due earlier by that."""
        self._waiting.discard(retry)
        self._unhelped.discard(retry)
        return self._plan_probe(now)

    def _plan_probe(self, now: float) -> bool:
        """Have one of those that wait go soon, in an outage and out of it."""
        if not self._waiting or self._timing.probe == _NO_PROBE:
            return False
        at = now + self._timing.probe * (1 + self._chance()) / 2
        if any(retry.due <= at for retry in self._waiting):
            return False
        soonest = min(self._waiting, key=lambda retry: max(retry.not_before, at))
        return self._bring_forward(soonest, at)

    @staticmethod
    def _bring_forward(retry: RequestRetry, at: float) -> bool:
        at = max(at, retry.not_before)
        if at + _WORTHWHILE >= retry.due:
            return False
        retry.due = at
        return True
