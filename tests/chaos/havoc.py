"""What is done to the node, one thing after the other; each leaves all programs running."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import time
from collections.abc import Callable

from tests.chaos.node import Node, hung
from tests.support.processes import until

IDLE = 200
"""Connections that do nothing, at once."""
GARBAGE = 30
"""Connections that talk garbage, one after the other."""


class Havoc:
    """All that can be done, chosen by chance."""

    def __init__(self, node: Node, chance: random.Random) -> None:
        self._node = node
        self._chance = chance
        self._all: dict[str, Callable[[], None]] = {
            "proxy: kill -9": lambda: self._restart_proxy(node.proxy.kill),
            "proxy: SIGTERM": lambda: self._restart_proxy(self._stop_proxy),
            "proxy: hangs": lambda: self._hang(node.proxy.pid),
            "koordlet: kill -9": lambda: self._restart_koordlet(node.koordlet.kill),
            "koordlet: SIGTERM": lambda: self._restart_koordlet(self._stop_koordlet),
            "koordlet: hangs": lambda: self._hang(node.koordlet.pid),
            "runtime: kill -9": lambda: self._restart_runtime(node.runtime.kill),
            "runtime: SIGTERM": lambda: self._restart_runtime(node.runtime.stop),
            "runtime: hangs": lambda: self._hang(node.runtime.pid),
            "runtime hangs, proxy: kill -9": self._restart_proxy_beside_hung_runtime,
            "registration deleted": lambda: self._spoil_registration(None),
            "registration damaged": lambda: self._spoil_registration(b'{"remote-endpoint": "/ru'),
            "state database damaged": self._spoil_database,
            "garbage": self._talk_garbage,
            "idle connections": self._connect_and_idle,
        }

    def wreak(self) -> str:
        """Do one thing, and say which."""
        name = self._chance.choice(list(self._all))
        self._all[name]()
        return name

    def _wait(self, least: float, most: float) -> None:
        time.sleep(self._chance.uniform(least, most))

    def _hang(self, pid: int | None) -> None:
        with hung(pid):
            # Longer and shorter than hooks and lookups have.
            self._wait(0.5, 3.5)

    def _restart_proxy(self, end: Callable[[], object]) -> None:
        end()
        self._wait(0.0, 0.5)
        self._node.proxy.start(reconciled=False)

    def _stop_proxy(self) -> None:
        assert self._node.proxy.stop() == 0

    def _restart_proxy_beside_hung_runtime(self) -> None:
        with hung(self._node.runtime.pid):
            self._restart_proxy(self._node.proxy.kill)
            self._wait(0.5, 3.0)

    def _restart_koordlet(self, end: Callable[[], object]) -> None:
        end()
        self._wait(0.2, 2.0)
        self._node.koordlet.start()

    def _stop_koordlet(self) -> None:
        assert self._node.koordlet.stop() == 0

    def _restart_runtime(self, end: Callable[[], object]) -> None:
        end()
        self._wait(0.5, 1.5)
        self._node.runtime.start()

    def _spoil_registration(self, content: bytes | None) -> None:
        """Perhaps with a new proxy, which never saw it whole; then koordlet writes it again."""
        node = self._node
        file = node.koordlet.registration
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        if self._chance.random() < 0.5:
            self._restart_proxy(node.proxy.kill)
        until(lambda: "koordlet" in node.proxy.healthz()["registrations"], "is not named")
        self._wait(0.5, 1.5)
        node.koordlet.signal(signal.SIGHUP)
        until(lambda: not node.proxy.healthz()["registrations"], "is not registered again")

    def _spoil_database(self) -> None:
        node, state = self._node, self._node.proxy.state
        node.proxy.kill()
        data = state.read_bytes()
        cut = self._chance.randrange(len(data))
        noise = self._chance.randbytes(len(data) - cut)
        how = self._chance.choice(("garbage", "cut", "noise"))
        state.write_bytes({"garbage": noise, "cut": data[:cut], "noise": data[:cut] + noise}[how])
        node.proxy.start(reconciled=False)

    def _talk_garbage(self) -> None:
        for _ in range(GARBAGE):
            with contextlib.suppress(OSError), self._client() as client:
                client.sendall(self._chance.randbytes(20_000))
                client.recv(1 << 16)

    def _connect_and_idle(self) -> None:
        with contextlib.ExitStack() as clients:
            for _ in range(IDLE):
                clients.enter_context(self._client())
            self._wait(0.2, 1.0)

    def _client(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(5.0)
        client.connect(str(self._node.proxy.address))
        return client
