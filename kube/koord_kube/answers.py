"""Answers to submitted writes: a call with each, instead of a task that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from koord_kube.protocol.api import ApiError
from koord_kube.protocol.request import Request

Answer = bytes | ApiError
"""The body of a good answer, or why there is none."""
Settle = Callable[[Answer], None]
"""Gets the answer; it must not raise."""


class Cancellable(Protocol):
    """A write under way."""

    def cancel(self) -> object:
        """Take it back: it gets no answer any more."""
        ...


async def answer_of(submit: Callable[[Request, Settle], Cancellable], request: Request) -> bytes:
    """Submit a write and wait for its answer; one whose caller is cancelled is taken back.

    Raises:
        ApiError: it was refused, or there is no answer.
    """
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def settle(found: Answer) -> None:
        if not answer.done():  # the caller may be cancelled, and not know it yet
            answer.set_result(found)

    pending = submit(request, settle)
    try:
        found = await answer
    except asyncio.CancelledError:
        pending.cancel()
        raise
    if isinstance(found, ApiError):
        raise found
    return found


class TaskSubmitter:
    """Submits to a client that has to be awaited: with a task for each write."""

    def __init__(self, write: Callable[[Request], Awaitable[bytes]]) -> None:
        self._write = write
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, request: Request, settle: Settle) -> Cancellable:
        """Send a write, and have ``settle`` called with its answer, later and once."""
        task = asyncio.get_running_loop().create_task(self._settle(request, settle))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settle(self, request: Request, settle: Settle) -> None:
        try:
            answer: Answer = await self._write(request)
        except ApiError as error:
            answer = error
        settle(answer)
