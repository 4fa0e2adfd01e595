"""What users see of a docker socket: by the command line, by the package, and on the wire."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import docker
from koord_service.unix_http import UnixConnection

from tests.support.processes import PATIENCE, until

_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b"), "ID"),
)


def normal(text: str | bytes) -> str:
    """A text in which whatever differs from one run to the next has one name: ids and times."""
    text = text.decode() if isinstance(text, bytes) else text
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return text


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Answer:
    """An HTTP answer without what differs from one to the next."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Docker:
    """One socket at which dockerd answers, itself or through something."""

    def __init__(self, address: Path, configuration: Path) -> None:
        """Let the command line keep its own files in ``configuration``."""
        self.address = address
        self._environment = os.environ | {
            "DOCKER_HOST": f"unix://{address}",
            "DOCKER_CONFIG": str(configuration),
            "DOCKER_BUILDKIT": "0",
            "DOCKER_CLI_HINTS": "false",
            "TERM": "dumb",
        }
        self._environment.pop("DOCKER_CONTEXT", None)

    def __call__(self, *words: object, data: bytes = b"", **environment: str) -> Said:
        """Run ``docker`` to its end, with something on its standard input."""
        with self.spawn(*words, **environment) as process:
            out, err = process.communicate(data, PATIENCE)
            return Said(process.returncode, normal(out), normal(err))

    @contextlib.contextmanager
    def spawn(self, *words: object, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run ``docker`` beside the test; it is gone with the block."""
        process = subprocess.Popen(
            ["docker", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment | environment,
        )
        # One that says nothing must not keep its reader for ever.
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        with process:
            try:
                yield process
            finally:
                watchdog.cancel()
                process.kill()

    def terminal(self, *words: object) -> Terminal:
        """Run ``docker`` on a terminal."""
        return Terminal(["docker", *map(str, words)], self._environment)

    @contextlib.contextmanager
    def package(self) -> Iterator[docker.DockerClient]:
        """A new client of the package, with connections of its own."""
        client = docker.DockerClient(base_url=f"unix://{self.address}")
        try:
            yield client
        finally:
            client.close()

    @contextlib.contextmanager
    def connection(self) -> Iterator[http.client.HTTPConnection]:
        """One connection, kept as long as the other side keeps it."""
        with contextlib.closing(UnixConnection(self.address, PATIENCE)) as connection:
            yield connection

    def ask(self, method: str, page: str, body: Any = None, **headers: str) -> Answer:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        with self.connection() as connection:
            connection.request(method, page, body, headers)
            return answer(connection.getresponse())

    @contextlib.contextmanager
    def wire(self, request: bytes = b"") -> Iterator[socket.socket]:
        """A bare connection, on which something was sent."""
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(PATIENCE)
            wire.connect(str(self.address))
            wire.sendall(request)
            yield wire


def answer(response: http.client.HTTPResponse) -> Answer:
    """What a response says, read to its end."""
    body = normal(response.read())
    headers = [(name, value) for name, value in response.getheaders() if name != "Date"]
    if dict(headers).get("Content-Length", "0") != "0" and "TIME" in body:
        # Times are written without trailing zeros.
        headers = [(name, value) for name, value in headers if name != "Content-Length"]
    return Answer(response.status, response.reason, tuple(headers), body)


class Terminal:
    """A program on a terminal of its own; ended by leaving the block."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self.text = ""
        """All that was shown so far; what was typed is part of it where it is echoed."""
        self._resize(24, 80)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until a text is shown."""
        until(lambda: text in self._read(), f"no {text!r} on the terminal")

    def resize(self, rows: int, columns: int) -> None:
        """What a user does to a window."""
        self._resize(rows, columns)
        # It is not the terminal's foreground job, so the kernel does not tell it.
        self._process.send_signal(signal.SIGWINCH)

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        until(lambda: (self._read(), self._process.poll() is not None)[1], "it does not end")
        self._read()
        return self._process.returncode

    def _resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> str:
        # Nothing there, or no one at the other end any more.
        with contextlib.suppress(BlockingIOError, OSError):
            while more := os.read(self._ours, 1 << 16):
                self.text += more.decode()
        return self.text
