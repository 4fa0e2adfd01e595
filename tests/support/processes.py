"""Programs of the project as real processes, their logs, and waiting for them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from koord_service.unix_http import UnixConnection

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds that anything may take before a test gives up: the machine is shared, and may stall."""


def until(condition: Callable[[], T], what: str = "", *, seconds: float = PATIENCE) -> T:
    """Wait for a condition to become true, and return what it says."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        found = condition()
        if found:
            return found
        now = time.monotonic()
        assert now < deadline, f"not within {seconds:g} s: {what or condition}"
        # To look is not to be most of what the machine does.
        time.sleep(max(0.01, now - began))


def let_programs_hear_interrupts() -> None:
    """Have programs that are started from here end on Ctrl-C, whatever started us.

    A shell has its background jobs ignore SIGINT, and what is ignored is inherited; a signal
    that is caught is not. We go on as if it were ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)


class Program:
    """A program that can be started, stopped, killed, and started again.

    Its output is added to one log file over all its runs.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def said(self) -> str:
        """Everything it wrote so far."""
        return self.log.read_text() if self.log.exists() else ""

    def events(self, message: str = "") -> list[dict[str, Any]]:
        """The log lines that are JSON, those with a message only if one is given."""
        found = []
        for line in self.said.splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if message in ("", event["message"]):
                    found.append(event)
        return found

    def spawn(self, command: Sequence[str]) -> None:
        """Start the program; its group is its own, so that only it is signalled."""
        assert self._process is None, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], object], what: str) -> None:
        """Wait for something the program does; that it does not end is part of it."""

        def ended_or_ready() -> bool:
            assert self._process is not None
            code = self._process.poll()
            assert code is None, f"{self.name} ended with {code}:\n{self.said[-3000:]}"
            return bool(ready())

        until(ended_or_ready, f"{self.name}: {what}; it said:\n{self.said[-3000:]}")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for its end, and return its exit code."""
        assert self._process is not None
        code = self._process.wait(seconds)
        self._process = None
        return code

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL, unless it has ended by itself."""
        assert self._process is not None
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self._process is not None:
            # One that was stopped with SIGSTOP hears nothing else.
            self.kill()

    def resident(self) -> float:
        """Megabytes of memory it holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024


def get(path: Path, page: str) -> str:
    """A page served over HTTP on a unix socket.

    Raises:
        OSError: nobody serves there.
    """
    connection = UnixConnection(path, PATIENCE)
    try:
        connection.request("GET", page)
        response = connection.getresponse()
        body = response.read().decode()
        assert response.status == 200, f"{page}: {response.status}: {body}"
        return body
    finally:
        connection.close()
