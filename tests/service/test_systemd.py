"""The protocols of systemd, spoken with real sockets and processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_service import systemd

from tests.support.processes import PATIENCE

VARIABLES = (
    *("NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"),
    *("WATCHDOG_USEC", "WATCHDOG_PID"),
)


@pytest.fixture(autouse=True)
def _not_under_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(PATIENCE)
        yield listening


@pytest.mark.parametrize("abstract", [False, True])
def test_notify(
    monkeypatch: pytest.MonkeyPatch, manager: socket.socket, tmp_path: Path, abstract: bool
) -> None:
    systemd.notify("READY=1")  # without systemd
    name = f"pykoord-test-{os.getpid()}"
    path = f"@{name}" if abstract else f"{tmp_path}/{name}"
    manager.bind(path.replace("@", "\0"))
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    for text, sent in (("READY=1\nSTATUS=größe", "READY=1\nSTATUS=größe"), ("S=\udc80", "S=?")):
        systemd.notify(text)
        assert manager.recv(100) == sent.encode()


@pytest.mark.parametrize("address", ["/missing/notify", "@pykoord-nobody", "/" + "x" * 200])
def test_notify_never_raises(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    systemd.notify("READY=1")
    systemd.notify("STATUS=\udc80")


# Started as systemd starts a service: sockets from descriptor 3, then exec.
LAUNCHER = """
import os, socket, sys
listeners = []
for path in sys.argv[2:]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    listeners.append(listener)
for number, listener in enumerate(listeners):
    os.dup2(listener.fileno(), 20 + number)
for number in range(len(listeners)):
    os.dup2(20 + number, 3 + number)
    os.close(20 + number)
os.environ |= {"LISTEN_FDS": str(len(listeners)), "LISTEN_FDNAMES": "cri:other"}
os.environ["LISTEN_PID"] = str(os.getpid() + int(sys.argv[1]))
os.execv(sys.executable, [sys.executable, "-c", os.environ["SERVICE"]])
"""

SERVICE = """
import os
from koord_service.systemd import listen_sockets
sockets = listen_sockets()
for listener in sockets:
    print(listener.fileno(), listener.getsockname(), listener.family.name,
          os.get_inheritable(listener.fileno()), listener.getblocking())
print(sorted(name for name in os.environ if name.startswith("LISTEN_")), len(listen_sockets()))
"""


def launch(pid_offset: int, *paths: str) -> list[str]:
    child = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(pid_offset), *paths],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SERVICE": SERVICE},
    )
    return child.stdout.splitlines()


def test_sockets_handed_over_or_left_to_another_process(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    assert launch(0, first, second) == [
        f"3 {first} AF_UNIX False False",
        f"4 {second} AF_UNIX False False",
        "[] 0",
    ]
    assert launch(1, str(tmp_path / "c")) == ["[] 0"]


@pytest.mark.parametrize(
    ("process", "count"), [("", "1"), ("self", ""), ("self", "x"), ("self", "-1"), ("self", "0")]
)
def test_no_sockets(monkeypatch: pytest.MonkeyPatch, process: str, count: str) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()) if process == "self" else process)
    monkeypatch.setenv("LISTEN_FDS", count)
    assert systemd.listen_sockets() == []
    assert "LISTEN_FDS" not in os.environ


@pytest.mark.parametrize(
    ("microseconds", "process", "expected"),
    [
        *((None, None, None), ("0", None, None), ("soon", None, None), ("-5", None, None)),
        *(("30000000", None, 15.0), ("30000000", "self", 15.0), ("30000000", "1", None)),
        ("500000", None, 0.25),
    ],
)
def test_watchdog(
    monkeypatch: pytest.MonkeyPatch,
    microseconds: str | None,
    process: str | None,
    expected: float | None,
) -> None:
    if microseconds is not None:
        monkeypatch.setenv("WATCHDOG_USEC", microseconds)
    if process is not None:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if process == "self" else process)
    assert systemd.watchdog_interval() == expected
