"""Do something in a fork that ends with it, whatever it did, and within a limit of CPU and time."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def in_fork(action: Callable[[], Any], cpu: float, wall: float) -> Any:
    """The result of an action in a fork; None if it raised, or took more seconds than these."""
    with tempfile.NamedTemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            _become(action, answer.name, cpu)
        _wait(child, wall)
        content = Path(answer.name).read_bytes()
    return pickle.loads(content) if content else None


def _become(action: Callable[[], Any], answer: str, cpu: float) -> None:
    with suppress(BaseException):
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + 1, int(cpu) + 2))
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        content = pickle.dumps(action())
        Path(answer).write_bytes(content)
    os._exit(0)


def _wait(child: int, wall: float) -> None:
    """Wait for the child, then end it and what it has started."""
    handle = os.pidfd_open(child)
    select.select([handle], [], [], wall)
    os.close(handle)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
