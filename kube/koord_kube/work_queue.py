"""Keys that are to be reconciled: each handed out once at a time, failed ones again later."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import anyio
from koord_service.backoff import Backoff

from koord_kube.core.retry_schedule import RequestRetry, RetrySchedule, RetryTiming
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.core.work_schedule import WorkSchedule

_RANDOM = random.SystemRandom()
_RETRY_QPS, _RETRY_BURST = 100.0, 1000
"""Of all keys together: one broken dependency must not keep a core busy with retries."""


class WorkQueue:
    """client-go's rate-limiting work queue.

    A key that is added many times before its turn is handed out once, and never while it is
    still being handled. A failed key waits for a time that grows from ``first`` to ``cap``
    seconds, and for its turn among all failed keys; adding it does not cut that wait short, but
    the first success of any request to the API server does (``bring_forward``).
    """

    def __init__(
        self,
        *,
        first: float = 0.2,
        cap: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        """``chance`` returns numbers from 0 to 1."""
        self._first, self._cap = first, cap
        self._monotonic = monotonic
        self._chance = chance
        self._schedule = WorkSchedule()
        self._retries = TokenBucket(_RETRY_QPS, _RETRY_BURST)
        timing = RetryTiming(first=first, cap=cap, probe=float("inf"))
        self._outage = RetrySchedule(chance, timing)
        self._failures: dict[str, tuple[Backoff, RequestRetry]] = {}
        self._keys: dict[RequestRetry, str] = {}
        self._changed = anyio.Event()
        self._waiting = 0

    def __len__(self) -> int:
        """Number of keys that wait or are being handled."""
        return len(self._schedule) + self._schedule.processing

    @property
    def failing(self) -> int:
        """Number of keys whose last reconciliation failed."""
        return len(self._failures)

    def add(self, key: str, after: float = 0.0) -> None:
        """Have a key handled in ``after`` seconds, or earlier if it waits already."""
        self._schedule.add(key, self._monotonic() + after)
        self._wake()

    async def get(self) -> str:
        """Wait for the next key; it is the caller's until ``done``, ``retry`` or ``put_back``."""
        while (key := self._schedule.take(self._monotonic())) is None:
            await self._wait()
        if key in self._failures:
            self._outage.left(self._failures[key][1], self._monotonic())
        return key

    def done(self, key: str) -> bool:
        """Record success; returns whether the key had failed before."""
        self._schedule.done(key)
        self._wake()
        _, retry = self._failures.pop(key, (None, None))
        if retry is None:
            return False
        del self._keys[retry]
        return True

    def retry(self, key: str, at_least: float = 0.0, *, was_answered: bool = True) -> None:
        """Record a failure: hand the key out again, ``at_least`` so many seconds from now.

        ``was_answered`` says that the reason is the key's own, whatever becomes of other requests.
        """
        backoff, retry = self._failure(key)
        now = self._monotonic()
        wait = max(backoff.next(), self._retries.take(now))
        self._outage.failed(
            retry,
            now,
            wait,
            retry_after=at_least,
            was_answered=was_answered,
        )
        self._schedule.failed(key, retry.due)
        self._wake()

    def bring_forward(self) -> None:
        """Some request succeeded: keys that failed before it wait no longer for the server."""
        if not self._failures:
            return  # as at almost all of thousands of successes a second
        earlier = self._outage.succeeded(self._monotonic())
        for retry in earlier:
            self._schedule.bring_forward(self._keys[retry], retry.due)
        if earlier:
            self._wake()

    def _failure(self, key: str) -> tuple[Backoff, RequestRetry]:
        if key not in self._failures:
            backoff = Backoff(self._first, self._cap, chance=self._chance)
            self._failures[key] = backoff, RequestRetry()
            self._keys[self._failures[key][1]] = key
        return self._failures[key]

    def put_back(self, key: str) -> None:
        """Have a key whose handling was cancelled handled again at once."""
        self._schedule.failed(key, self._monotonic())
        self._wake()

    async def _wait(self) -> None:
        """Wait until there may be a key to hand out."""
        at = self._schedule.next_at()
        seconds = None if at is None else max(0.0, at - self._monotonic())
        self._waiting += 1
        try:
            with anyio.move_on_after(seconds):
                await self._changed.wait()
        finally:
            self._waiting -= 1

    def _wake(self) -> None:
        if self._waiting:
            changed, self._changed = self._changed, anyio.Event()
            changed.set()
