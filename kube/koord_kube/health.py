"""The liveness and readiness pages of a control-plane program."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal
from koord_service.pages import MakePage, StatusPage

T = TypeVar("T")

STALLED_SECONDS = 30.0
"""If the event loop has had no turn for so long, the program is not alive."""

_BEAT_SECONDS = 1.0
_ANSWER_SECONDS = 5.0


class EventLoopHealth:
    """Says from other threads whether the event loop turns, and looks things up in it.

    Pages are made in threads; what changes in the event loop is read only there.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._beat = monotonic()
        self._portal: BlockingPortal | None = None

    async def run(self) -> None:
        """Beat, and answer threads, until cancelled."""
        async with BlockingPortal() as portal:
            self._portal = portal
            try:
                while True:
                    self._beat = self._monotonic()
                    await anyio.sleep(_BEAT_SECONDS)
            finally:
                self._portal = None

    def look_up(self, read: Callable[[], T]) -> T:
        """The result of ``read``, called in the event loop; for other threads.

        Raises:
            TimeoutError: the event loop does not answer, or is not running.
        """
        return self._running_portal().start_task_soon(read).result(_ANSWER_SECONDS)

    def look_up_async(self, read: Callable[[], Awaitable[T]]) -> T:
        """As ``look_up``, of a ``read`` that has to wait itself."""
        return self._running_portal().start_task_soon(read).result(_ANSWER_SECONDS)

    def _running_portal(self) -> BlockingPortal:
        portal = self._portal
        if portal is None:
            raise TimeoutError("the event loop is not running")
        return portal

    def alive_page(self) -> StatusPage:
        """503 if the event loop has had no turn for a long time."""
        silent = self._monotonic() - self._beat
        if silent > STALLED_SECONDS:
            reason = f"the event loop has had no turn for {silent:.0f} s\n"
            return StatusPage(reason.encode(), status=503)
        return StatusPage(b"ok\n")


def probe_pages(health: EventLoopHealth, not_ready: Callable[[], str]) -> dict[str, MakePage]:
    """The pages by path; ``not_ready`` returns why it should get no requests, "" if ready."""

    def ready() -> StatusPage:
        reason = health.look_up(not_ready)
        return StatusPage(f"{reason or 'ok'}\n".encode(), status=503 if reason else 200)

    return {
        "/healthz": lambda _: health.alive_page(),
        "/livez": lambda _: health.alive_page(),
        "/readyz": lambda _: ready(),
    }
