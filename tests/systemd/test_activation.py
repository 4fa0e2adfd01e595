"""What systemd does with the real proxy: hands over a socket, listens to it, restarts it."""

from __future__ import annotations

import ctypes
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import grpc
import pytest
from koord_demo.programs import console_script

from tests.support.caller import LIKE_A_KUBELET, Caller
from tests.support.cri import Cri, method_path, pb
from tests.support.embedded import EmbeddedRuntime
from tests.support.processes import PATIENCE, until

PR_SET_MDWE, PR_GET_MDWE, REFUSE_EXEC_GAIN = 65, 66, 1

# As systemd starts a service: descriptor 3 is the socket, and the variables name the process.
EXEC = f"""
import ctypes, os, sys
descriptor, mdwe, *command = sys.argv[1:]
os.dup2(int(descriptor), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
if mdwe == "mdwe":
    assert ctypes.CDLL(None).prctl({PR_SET_MDWE}, {REFUSE_EXEC_GAIN}, 0, 0, 0) == 0
os.execv(command[0], command)
"""


class Manager:
    """systemd's part: it holds the socket, and hears what the service tells."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "cri.sock"
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(self.path))
        self.listening.listen(128)
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(directory / "notify"))
        self.notified.settimeout(PATIENCE)
        self.heard: list[str] = []
        self.service: subprocess.Popen[bytes] | None = None

    def start(self, *more: str, mdwe: bool = False) -> None:
        """Start the proxy with more flags, and wait until it says that it is ready."""
        keep = self.listening.fileno()
        flags = [
            "--koord-runtimeproxy-endpoint=/nowhere/unused.sock",
            f"--remote-runtime-service-endpoint={self.directory}/runtime.sock",
            f"--hook-config-path={self.directory}/hookserver.d",
            f"--state-path={self.directory}/state/state.db",
            "--metrics-address=",
            *more,
        ]
        wrapper = [sys.executable, "-c", EXEC, str(keep), "mdwe" if mdwe else "-"]
        with (self.directory / "log").open("ab") as log:
            self.service = subprocess.Popen(
                [*wrapper, console_script("koord-runtime-proxy"), *flags],
                pass_fds=[keep],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": str(self.directory / "notify"),
                    "WATCHDOG_USEC": "200000",
                },
            )
        self.hear("READY=1")

    def hear(self, word: str) -> None:
        """Wait until the service says something."""

        def said() -> bool:
            self.heard.append(self.notified.recv(4096).decode())
            return self.heard[-1] == word

        until(said, f"{word}; heard {self.heard[-5:]}")

    def stop(self) -> int:
        assert self.service is not None
        self.service.terminate()
        return self.service.wait(PATIENCE)

    def close(self) -> None:
        if self.service is not None and self.service.poll() is None:
            self.service.kill()
            self.service.wait()
        self.listening.close()
        self.notified.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    one = Manager(tmp_path)
    yield one
    one.close()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[EmbeddedRuntime]:
    with EmbeddedRuntime(tmp_path) as running:
        yield running


class _Engine(BaseHTTPRequestHandler):
    """A double of dockerd without containers: it keeps connections, as dockerd does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = {"/_ping": b"OK", "/containers/json": b"[]\n"}[self.path.partition("?")[0]]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[None]:
    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "runtime.sock"), _Engine) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield
        server.shutdown()
        thread.join(PATIENCE)


def pinged(client: socket.socket) -> bytes:
    """What the engine answers to a ping that was sent."""
    response = HTTPResponse(client)
    response.begin()
    return response.read()


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    return client


@pytest.mark.usefixtures("runtime")
def test_a_restart_refuses_no_connection(manager: Manager) -> None:
    manager.start()
    with Cri(manager.path) as cri:
        assert cri.version().runtime_name
    assert manager.stop() == 0
    # Nobody serves now; who connects waits, and is served by the next.
    assert manager.path.exists()
    with (
        connect(manager.path),
        grpc.insecure_channel(f"unix:{manager.path}", LIKE_A_KUBELET) as channel,
    ):
        version = channel.unary_unary(
            method_path("Version"), response_deserializer=pb.VersionResponse.FromString
        )
        call = version.future(b"", timeout=PATIENCE)
        manager.start()
        assert call.result().runtime_name
    assert manager.stop() == 0
    assert manager.path.exists()
    connect(manager.path).close()


@pytest.mark.usefixtures("engine")
def test_a_restart_in_front_of_docker(manager: Manager) -> None:
    """Who waits for nothing is not waited for; who connects meanwhile is served by the next."""
    ping = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
    in_front_of_docker = ("--backend-runtime-mode=Docker", "--drain-timeout=1000")
    manager.start(*in_front_of_docker)
    with connect(manager.path) as idle:
        idle.sendall(ping)
        assert pinged(idle) == b"OK"
        assert manager.stop() == 0
        assert idle.recv(1) == b""
    with connect(manager.path) as client:
        client.sendall(ping)
        manager.start(*in_front_of_docker)
        assert pinged(client) == b"OK"


@pytest.mark.usefixtures("runtime")
def test_a_crash_refuses_no_connection(manager: Manager) -> None:
    manager.start()
    assert manager.service is not None
    manager.service.kill()
    manager.service.wait(PATIENCE)
    with connect(manager.path):
        manager.start()
        with Cri(manager.path) as cri:
            assert cri.version().runtime_name


@pytest.mark.usefixtures("runtime")
def test_restarts_lose_no_call(manager: Manager) -> None:
    """Neither those under way nor those that are sent in that very moment."""
    manager.start()
    kubelets = [Caller(manager.path) for _ in range(3)]
    for kubelet in kubelets:
        kubelet.start()
    try:
        for _ in range(4):
            before = sum(kubelet.calls for kubelet in kubelets)
            until(lambda before=before: sum(kubelet.calls for kubelet in kubelets) > before + 50)
            assert manager.stop() == 0
            manager.start()
    finally:
        for kubelet in kubelets:
            kubelet.over = True
        for kubelet in kubelets:
            kubelet.join(PATIENCE)
    assert [kubelet.errors for kubelet in kubelets] == [[], [], []]


def test_what_systemd_hears(manager: Manager) -> None:
    # No runtime is needed to be ready: the proxy waits for it.
    manager.start()
    manager.hear("WATCHDOG=1")
    manager.hear("WATCHDOG=1")
    assert manager.service is not None
    manager.service.terminate()
    manager.hear("STOPPING=1")
    assert manager.service.wait(PATIENCE) == 0
    assert set(manager.heard) == {"READY=1", "WATCHDOG=1", "STOPPING=1"}


def _has_mdwe() -> bool:
    # PR_GET_MDWE: setting it here would last.
    return ctypes.CDLL(None).prctl(PR_GET_MDWE, 0, 0, 0, 0) >= 0


@pytest.mark.skipif(not _has_mdwe(), reason="the kernel has no PR_SET_MDWE (Linux 6.3)")
@pytest.mark.usefixtures("runtime")
def test_it_runs_where_no_memory_becomes_executable(manager: Manager) -> None:
    manager.start(mdwe=True)
    with Cri(manager.path) as cri:
        assert cri.version().runtime_name
    assert manager.stop() == 0
