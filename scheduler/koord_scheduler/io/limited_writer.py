"""Writes to the API that come in large numbers, so many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from koord_kube.answers import Answer, Cancellable, Settle, answer_of
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import RequestBackoff, SharedBackoff

from koord_scheduler.io.fifo_queue import FifoQueue

Write = Callable[[Request], Awaitable[bytes]]
Submit = Callable[[Request, Settle], Cancellable]
STREAMS = 200
"""Writes under way at a time."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds; between the tries of a write."""
_TOO_MANY_REQUESTS = 429


class LimitedWriter:
    """Submits at most ``streams`` writes at a time; the others wait for their turn.

    Where the server answers 429, the write waits as long as it asks for, keeps its turn, and is
    sent again, while ``run`` runs; ``backoff`` is that of the API server.
    """

    def __init__(
        self, submit: Submit, streams: int = STREAMS, backoff: SharedBackoff | None = None
    ) -> None:
        self._submit = submit
        self._streams = streams
        self._backoff = backoff or SharedBackoff()
        self._waiting: deque[_Turn] = deque()
        self._refused: FifoQueue[tuple[_Turn, ApiError]] = FifoQueue()
        self._under_way = 0
        self.unsent = 0
        """Writes that are not answered."""

    def submit(self, request: Request, settle: Settle) -> Cancellable:
        """Send a write when its turn comes, and have ``settle`` called with its answer."""
        turn = _Turn(self, request, settle)
        self.unsent += 1
        self._waiting.append(turn)
        self._send()
        return turn

    async def write(self, request: Request) -> bytes:
        """Send a write; returns the answer.

        Raises:
            ApiError: the write failed, but not because the server has too much to do.
        """
        return await answer_of(self.submit, request)

    async def run(self) -> None:
        """Send again what the server had no time for, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                group.start_soon(self._send_again, *await self._refused.get())

    def withdraw(self, turn: _Turn) -> None:
        """Do not send a write that still waits; one under way keeps its turn until its end."""
        if turn in self._waiting:
            self._waiting.remove(turn)
            self.unsent -= 1

    def answered(self, turn: _Turn, answer: Answer) -> None:
        """Pass an answer on, and the turn to the next."""
        if isinstance(answer, ApiError) and answer.status == _TOO_MANY_REQUESTS:
            self._refused.put((turn, answer))
            return
        self._under_way -= 1
        self.unsent -= 1
        turn.settle(answer)
        self._send()

    def _send(self) -> None:
        while self._waiting and self._under_way < self._streams:
            turn = self._waiting.popleft()
            self._under_way += 1
            self._submit(turn.request, turn.answered)

    async def _send_again(self, turn: _Turn, refusal: ApiError) -> None:
        if turn.backoff is None:
            turn.backoff = RequestBackoff(self._backoff, FIRST_PAUSE, LONGEST_PAUSE)
        await turn.backoff.pause(refusal)
        self._submit(turn.request, turn.answered)


@dataclass(eq=False, slots=True)
class _Turn:
    """One write, from its place in the queue to its answer."""

    writer: LimitedWriter
    request: Request
    settle: Settle
    backoff: RequestBackoff | None = None

    def answered(self, answer: Answer) -> None:
        self.writer.answered(self, answer)

    def cancel(self) -> None:
        self.writer.withdraw(self)
