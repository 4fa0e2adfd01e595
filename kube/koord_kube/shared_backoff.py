"""Waits between tries, shared by all that a program asks of one API server."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import anyio
from koord_service.backoff import Backoff

from koord_kube.core.retry_schedule import RequestRetry, RetrySchedule, RetryTiming
from koord_kube.protocol.api import ApiError

_RANDOM = random.SystemRandom()
_NO_ANSWER = ApiError("no answer")


class SharedBackoff:
    """Ends the waits of all once the API server answers one; see ``core.retry_schedule``."""

    def __init__(
        self,
        timing: RetryTiming | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        """``chance`` returns numbers from 0 to 1."""
        self._schedule = RetrySchedule(chance, timing or RetryTiming())
        self._monotonic = monotonic
        self._sleeps: set[anyio.CancelScope] = set()
        self._listeners: set[Callable[[], None]] = set()

    def succeeded(self) -> None:
        """Some request to the API server succeeded."""
        if self._schedule.succeeded(self._monotonic()):
            self._wake()
        for listener in self._listeners:
            listener()

    @contextmanager
    def listening(self, on_success: Callable[[], None]) -> Iterator[None]:
        """Meanwhile have ``on_success`` called whenever some request succeeds, which is often."""
        self._listeners.add(on_success)
        try:
            yield
        finally:
            self._listeners.discard(on_success)

    async def pause(
        self,
        retry: RequestRetry,
        wait: float,
        error: ApiError = _NO_ANSWER,
        longest: float = math.inf,
    ) -> None:
        """Wait for the next try of what failed just now; see ``RetrySchedule.failed``.

        The server may ask for ``longest`` seconds at most.
        """
        now = self._monotonic()
        earlier = self._schedule.failed(
            retry,
            now,
            wait,
            retry_after=min(error.retry_after, longest),
            was_answered=not error.is_outage,
        )
        if earlier:
            self._wake()
        try:
            while retry.due > now and await self._was_woken(retry.due - now):
                now = self._monotonic()
        finally:
            if self._schedule.left(retry, self._monotonic()):
                self._wake()

    async def _was_woken(self, seconds: float) -> bool:
        """Sleep; whether that ended before its time, since something is due earlier."""
        with anyio.CancelScope() as sleep:
            self._sleeps.add(sleep)
            try:
                await anyio.sleep(seconds)
            finally:
                self._sleeps.discard(sleep)
        return sleep.cancelled_caught

    def _wake(self) -> None:
        for sleep in self._sleeps:
            sleep.cancel()


class RequestBackoff:
    """The waits between the tries of one request: they grow from ``first`` to ``cap`` seconds.

    They are at least what the server asked for, but no more than ``longest`` for that, and shared
    with all others that ask it.
    """

    def __init__(
        self, shared: SharedBackoff, first: float, cap: float, longest: float = math.inf
    ) -> None:
        self._shared = shared
        self._longest = longest
        self._backoff = Backoff(first, cap)
        self._retry = RequestRetry()

    async def pause(self, error: ApiError) -> None:
        """Wait for the next try of the request, which failed with ``error``."""
        await self._shared.pause(self._retry, self._backoff.next(), error, self._longest)


@runtime_checkable
class _HasBackoff(Protocol):
    """A client of a cluster."""

    @property
    def backoff(self) -> SharedBackoff: ...


def backoff_of(api: object) -> SharedBackoff:
    """Return the backoff shared by all clients of the cluster; one of its own for another API."""
    return api.backoff if isinstance(api, _HasBackoff) else SharedBackoff()
