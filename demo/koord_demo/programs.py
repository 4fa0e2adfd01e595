"""Programs of the project run as real processes, and what they log."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_PATIENCE = 60.0
"""Seconds a program has to get ready."""


class DemoError(Exception):
    """The demo cannot go on; the message is for people."""


class DemoProgram:
    """A running program; its log lines are kept, and those in JSON understood."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Ctrl-C on the terminal is for us: we stop it in order.
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def events(self) -> list[dict[str, Any]]:
        """The log lines so far that are JSON objects."""
        found = []
        for line in tuple(self.lines):
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                found += [event] if isinstance(event, dict) else []
        return found

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until the program has done something.

        Raises:
            DemoError: it ended, or took too long; the message has its last log lines.
        """
        deadline = time.monotonic() + _PATIENCE
        while not ready():
            if self._process.poll() is not None:
                self._reader.join(1.0)
                raise DemoError(f"{self.name} ended with {self._process.returncode}{self._tail()}")
            if time.monotonic() > deadline:
                raise DemoError(f"{self.name} is not ready after {_PATIENCE:g} s{self._tail()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for one that does not listen."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1.0)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line.rstrip("\n"))

    def _tail(self) -> str:
        return "; its last log lines:\n" + "\n".join(self.lines[-10:]) if self.lines else ""


@contextlib.contextmanager
def running(name: str, command: Sequence[str]) -> Iterator[DemoProgram]:
    """A program that runs as long as the block does."""
    program = DemoProgram(name, command)
    try:
        yield program
    finally:
        program.stop()


def console_script(name: str) -> str:
    """One of the project's programs, beside the Python that runs us.

    Raises:
        DemoError: it is not installed.
    """
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise DemoError(f"{path} does not exist: install the project first (make demo does)")
    return str(path)
