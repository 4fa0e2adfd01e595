"""Writes to the API that come in large numbers, so many at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import RequestBackoff, SharedBackoff

Write = Callable[[Request], Awaitable[bytes]]
STREAMS = 200
"""Writes under way at a time."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds; between the tries of a write."""


class LimitedWriter:
    """Sends at most ``streams`` writes at a time; the others wait for their turn.

    Where the server answers 429, the write waits as long as it asks for, keeps its turn, and is
    sent again; ``backoff`` is that of the API server.
    """

    def __init__(
        self, write: Write, streams: int = STREAMS, backoff: SharedBackoff | None = None
    ) -> None:
        self._write = write
        self._backoff = backoff or SharedBackoff()
        self._turns = anyio.Semaphore(streams, fast_acquire=True)
        self.unsent = 0
        """Writes that are not answered."""

    async def write(self, request: Request) -> bytes:
        """Send a write; returns the answer.

        Raises:
            ApiError: the write failed, but not because the server has too much to do.
        """
        self.unsent += 1
        try:
            async with self._turns:
                return await self._send(request)
        finally:
            self.unsent -= 1

    async def _send(self, request: Request) -> bytes:
        pauses = RequestBackoff(self._backoff, FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                return await self._write(request)
            except ApiError as error:
                if error.status != 429:
                    raise
                await pauses.pause(error)
