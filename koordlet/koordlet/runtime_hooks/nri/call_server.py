"""Asking the handler, and answering for one that is late or fails."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from koord_service.logs import get_log

from koordlet.runtime_hooks.nri.protocol.events import IncomingCall
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler, RefusedCallError

_log = get_log("koordlet.nri")


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """Answer of a handler that came after "no change" had been sent."""

    method: str
    request: Message
    response: Message


@dataclass(slots=True)
class NriCounts:
    """Counts so far, for the metrics."""

    connections: int = 0
    """Those that came as far as synchronisation."""
    calls: int = 0
    late: int = 0
    """Calls whose handler took too long; all but plain methods were answered "no change"."""
    failed: int = 0
    """Calls answered "no change" because the handler failed."""
    updates: int = 0
    updates_failed: int = 0
    """Containers that the runtime did not update, and updates it refused whole."""


class CallServer:
    """Turns calls into answers of one connection.

    ``answer`` takes them, None is no change; ``refuse`` takes the reasons of refusals.
    """

    def __init__(
        self,
        handler: NriHandler,
        counts: NriCounts,
        answer: Callable[[IncomingCall, Message | None], None],
        refuse: Callable[[IncomingCall, str], None],
        late: Callable[[LateAnswer], object] | None,
    ) -> None:
        self._refuse = refuse
        self._handler = handler
        self._counts = counts
        self._answer = answer
        self._late = late
        self._running: set[asyncio.Task[None]] = set()
        self._over = False

    def ask(self, call: IncomingCall, deadline: float, tasks: asyncio.TaskGroup) -> None:
        """Have a call answered, after ``deadline`` seconds at the latest."""
        self._counts.calls += 1
        now = asyncio.get_running_loop().time
        before = now()
        try:
            given = getattr(self._handler, call.method.handler)(call.request)
        except Exception as error:
            self._fail(call, error)
            self._answer(call, None)
            return
        if (taken := now() - before) > deadline:
            # Whoever holds up the loop cannot be answered for in time.
            self._counts.late += 1
            reason = f"the loop was held up for {taken:.3g} s"
            _log.warning("nri handler slow", **_subject(call), reason=reason)
        if not inspect.isawaitable(given):
            self._give(call, given)
            return
        task = tasks.create_task(self._finish(call, given, deadline))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        if inspect.iscoroutine(given):
            # A task that is cancelled before it begins would leave it never awaited.
            task.add_done_callback(lambda _: given.close())

    def end(self) -> None:
        """Discard answers: the caller does not wait any more."""
        self._over = True
        for task in self._running:
            task.cancel()

    async def _finish(self, call: IncomingCall, given: Awaitable[Any], deadline: float) -> None:
        response = None
        clock = _CallDeadline(deadline)
        timer = asyncio.get_running_loop().call_later(deadline, self._give_up, call, clock)
        try:
            response = await given
        except RefusedCallError as error:
            if not (clock.run_out or self._over):
                self._refuse(call, str(error))
            return
        except Exception as error:
            self._fail(call, error)
        except asyncio.CancelledError as error:
            if self._over:
                raise
            # The handler's own affair: something it waited for was cancelled.
            self._fail(call, error)
        finally:
            timer.cancel()
        if clock.run_out:
            self._offer(call, response)
        elif not self._over:
            self._give(call, response)

    def _give(self, call: IncomingCall, response: Message | None) -> None:
        try:
            self._answer(call, response)
        except (TypeError, ValueError) as error:
            # Of another call's type, or too large.
            self._fail(call, error)
            self._answer(call, None)

    def _give_up(self, call: IncomingCall, clock: _CallDeadline) -> None:
        if self._over:
            return
        clock.run_out = True
        self._counts.late += 1
        reason = f"no answer within {clock.seconds:.3g} s"
        _log.warning("nri call answered with no change", **_subject(call), reason=reason)
        self._answer(call, None)

    def _offer(self, call: IncomingCall, response: Message | None) -> None:
        if response is None or self._late is None:
            return
        try:
            self._late(LateAnswer(call.method.name, call.request, response))
        except Exception as error:
            _log.error("late nri answer not taken", **_subject(call), reason=one_line(error))

    def _fail(self, call: IncomingCall, error: BaseException) -> None:
        self._counts.failed += 1
        _log.error("nri handler failed", **_subject(call), reason=one_line(error))


@dataclass(slots=True)
class _CallDeadline:
    """A call's deadline, and whether it has passed."""

    seconds: float
    run_out: bool = False


def one_line(error: BaseException) -> str:
    """An error's kind and words, for a log line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _subject(call: IncomingCall) -> dict[str, str | None]:
    """Return the fields of a log line that name a call's subject."""
    pod = getattr(call.request, "pod", None)
    container = getattr(call.request, "container", None)
    return {
        "call": call.method.name,
        "pod": f"{pod.namespace}/{pod.name}" if pod else None,
        "container": container.name if container else None,
    }
