"""The common frame of control-plane programs, before and beside their work."""

from __future__ import annotations

import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn

import anyio
import uvloop
from koord_service import memory
from koord_service.logs import EventLog
from koord_service.terminal import write_error

from koord_kube.connect import ConnectError

_SETTLE_SECONDS = 3600.0


def run_program(name: str, work: Coroutine[Any, Any, None], log: EventLog) -> None:
    """Run until it ends; exit 2 if it cannot work as configured, 1 on other errors."""
    try:
        uvloop.run(work)
    except (ValueError, ConnectError) as error:
        exit_with(name, 2, str(error))
    except Exception as error:
        log.debug("ended by", traceback="".join(traceback.format_exception(error)))
        exit_with(name, 1, ending(error))


def ending(error: BaseException) -> str:
    """Describe the end of a run in a line; of a defect also its kind and place."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError):
        return str(error)
    at = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in at)
    return f"defect: {type(error).__name__}: {error}{where}"


def exit_with(name: str, code: int, message: str) -> NoReturn:
    """End the program with one line on stderr."""
    write_error(name, message)
    raise SystemExit(code)


async def settle_for_ever() -> None:
    """Let old garbage go once in a while."""
    while True:
        await anyio.sleep(_SETTLE_SECONDS)
        memory.freeze_startup()
