"""Writes that may be late or lost, behind all others: Events and conditions."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import anyio
import msgspec

from koord_kube.answers import Answer, Cancellable, Settle
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import RequestBackoff, SharedBackoff

MOST_BYTES = 64 << 20
"""Size of the writes that wait; beyond it the oldest are dropped."""
LONGEST_DELAY_SECONDS = 20.0
_STREAMS = 32
_TRIES = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 8.0
_BUSY_SECONDS = 0.1
"""Time between two looks at ``busy``."""
_OVERHEAD = 512
"""Bytes of a write beside its body, about."""


@dataclass(eq=False, slots=True)
class _Report:
    """A write that waits, ``since`` it was put here."""

    request: Request
    since: float
    tries: int = 0

    @property
    def size(self) -> int:
        return len(self.request.encoded) + _OVERHEAD


class BackgroundWriter:
    """Submits writes in order, 32 at a time, while ``run`` runs.

    They wait while ``busy`` returns true, but no longer than ``LONGEST_DELAY_SECONDS``: an Event
    costs the API server as much as a binding. While the server is away or has too much to do, all
    wait as ``backoff`` says, and what failed by that is sent three times at most. ``on_warning``
    gets a line when writes begin to fail.
    """

    def __init__(
        self,
        submit: Callable[[Request, Settle], Cancellable],
        backoff: SharedBackoff,
        *,
        busy: Callable[[], bool] = lambda: False,
        most_bytes: int = MOST_BYTES,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._submit = submit
        self._backoff = backoff
        self._busy = busy
        self._most_bytes = most_bytes
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._waiting: deque[_Report] = deque()
        self._bytes = 0
        self._under_way = 0
        self._moved = anyio.Event()
        self._outage: ApiError | None = None
        self._pauses: RequestBackoff | None = None
        self._is_failing = False
        self.counts: Counter[str] = Counter()
        """Of writes: ``written``, ``failed``, or ``dropped`` since too many waited."""

    def put(self, request: Request) -> None:
        """Send a write when there is time for it."""
        if request.body is not None:  # as text it takes a fifth of the memory
            encoded = request.payload
            request = msgspec.structs.replace(request, body=None, encoded=encoded)
        report = _Report(request, self._monotonic())
        self._waiting.append(report)
        self._bytes += report.size
        while self._bytes > self._most_bytes:
            self._take()
            self.counts["dropped"] += 1
        self._moved.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wait_for_turn()
            report = self._take()
            report.tries += 1
            self._under_way += 1
            self._submit(report.request, partial(self._settle, report))

    def _take(self) -> _Report:
        report = self._waiting.popleft()
        self._bytes -= report.size
        return report

    async def _wait_for_turn(self) -> None:
        """Wait until there is a write, and the server has time for it."""
        while True:
            if not self._waiting or self._under_way >= _STREAMS:
                self._moved = anyio.Event()
                await self._moved.wait()
            elif self._outage is not None:
                await self._pause(self._outage)
            elif self._busy() and self._monotonic() < self._due():
                await anyio.sleep(_BUSY_SECONDS)
            else:
                return

    def _due(self) -> float:
        return self._waiting[0].since + LONGEST_DELAY_SECONDS

    async def _pause(self, outage: ApiError) -> None:
        self._outage = None
        if self._pauses is None:
            self._pauses = RequestBackoff(self._backoff, _FIRST_PAUSE, _LONGEST_PAUSE)
        await self._pauses.pause(outage)

    def _settle(self, report: _Report, answer: Answer) -> None:
        self._under_way -= 1
        self._moved.set()
        if isinstance(answer, bytes):
            self.counts["written"] += 1
            self._pauses, self._is_failing = None, False
            return
        if answer.is_outage or answer.status == 429:
            self._outage = answer
            if report.tries < _TRIES:
                self._waiting.appendleft(report)
                self._bytes += report.size
                return
        self._failed(answer)

    def _failed(self, error: ApiError) -> None:
        self.counts["failed"] += 1
        if isinstance(error, NotFoundError | NotLeadingError):
            return  # what it is about is gone, or somebody else reports
        if not self._is_failing:
            self._on_warning(str(error))
        self._is_failing = True
