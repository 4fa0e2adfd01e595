"""The end of a program: who asks for it, its exit code, and its last line."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koord_service.error_text import describe_os_error
from koord_service.log_limits import flush_limiters
from koord_service.logs import EventLog
from koord_service.terminal import exit_with

if TYPE_CHECKING:
    import asyncio  # a program without an event loop does not load it: 5 MiB

INVALID_SETTINGS, FAILED = 2, 1
"""Exit codes."""
STOPPED = "stopped"
"""The last line of a program that serves."""


def on_signals(
    stop: Callable[[], object],
    reload: Callable[[], object] | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> None:
    """Have ``stop`` called at each SIGTERM and SIGINT, and ``reload`` at SIGHUP.

    They are called on ``loop``, or between two instructions of the main thread where there is
    none. It holds to the very end: a second signal does not cut short what the first began.
    """
    actions = {signal.SIGTERM: stop, signal.SIGINT: stop}
    if reload is not None:
        actions[signal.SIGHUP] = reload
    for number, action in actions.items():
        if loop is not None:
            loop.add_signal_handler(number, action)
        else:
            signal.signal(number, partial(_call, action))


def _call(action: Callable[[], object], _number: int, _frame: object) -> None:
    action()


def run_program(name: str, work: Coroutine[Any, Any, None], log: EventLog) -> None:
    """Run on an event loop until it ends, as ``program_end`` says."""
    import uvloop  # not all programs have an event loop

    with program_end(name, log):
        try:
            uvloop.run(work)
        finally:
            flush_limiters()
        log.info(STOPPED)


@contextmanager
def program_end(name: str, log: EventLog) -> Iterator[None]:
    """Exit with 2 if the program cannot work as configured (ValueError), with 1 on other errors.

    The last line says why. A defect's traceback is in the log as well.
    """
    try:
        yield
    except Exception as group:
        error = _sole(group)
        if isinstance(error, ValueError):
            exit_with(name, INVALID_SETTINGS, str(error))
        if isinstance(error, OSError):
            exit_with(name, FAILED, describe_os_error(error))
        log.error("defect: ended", traceback="".join(traceback.format_exception(group)))
        exit_with(name, FAILED, f"defect: {type(error).__name__}: {error}{_place(error)}")


def _sole(error: Exception) -> Exception:
    """A group of tasks wraps what one of them raised; several errors are nobody's to hide."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _place(error: Exception) -> str:
    at = traceback.extract_tb(error.__traceback__)[-1:]
    return "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in at)
