"""The node: a runtime that can be ended and hung, proxy and koordlet before it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tests.chaos.tally import Usage
from tests.support.containerd import Containerd
from tests.support.processes import Program, until
from tests.support.proxy import Koordlet, Proxy

HOOK_SECONDS = 2.0
"""What a hook server that hangs may cost a call: the proxy's own default."""


class Runtime(Protocol):
    """A container runtime as a process."""

    address: Path
    cgroup_root: str

    @property
    def pid(self) -> int | None:
        """Its process."""

    def start(self) -> None:
        """Start, and wait until it answers."""

    def stop(self) -> None:
        """End in order."""

    def kill(self) -> None:
        """kill -9."""


class Embedded(Program):
    """The embedded runtime. Unlike containerd it forgets its pods when it ends."""

    cgroup_root = "/kubepods"

    def __init__(self, directory: Path) -> None:
        super().__init__("runtime", directory)
        self.address = directory / "runtime.sock"

    def start(self) -> None:
        before = self.said.count("CRI on")
        command = [sys.executable, "-m", "koord_demo.runtime", "--socket", str(self.address)]
        self.spawn([*command, "--root", str(self.directory / "cgroup")])
        self.wait_until(lambda: self.said.count("CRI on") > before, "does not serve")


class Node:
    """All programs of a node, running."""

    def __init__(self, directory: Path, runtime: Runtime) -> None:
        self.runtime = runtime
        self.proxy = Proxy(directory, runtime.address)
        self.koordlet = Koordlet(
            directory,
            self.proxy.hooks,
            "--runtime-hooks-failure-policy=Fail",
            f"--hook-timeout={HOOK_SECONDS:g}",
        )

    def usage(self) -> Usage:
        """What the proxy holds, once nobody is connected."""
        proxy = self.proxy
        until(lambda: proxy.healthz()["connections"] == 0, "the proxy keeps connections")
        descriptors = len(os.listdir(f"/proc/{proxy.pid}/fd"))
        return Usage(proxy.resident(), descriptors)

    def tracebacks(self) -> int:
        """Defects that show in logs."""
        said = self.proxy.said + self.koordlet.said
        return said.count("Traceback") + said.count('"message":"defect')


@contextlib.contextmanager
def hung(pid: int | None) -> Iterator[None]:
    """A process that does nothing while the block runs."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def running(directory: Path, *, real: bool) -> Iterator[Node]:
    """A node on the embedded runtime, or on a real containerd (root)."""
    with contextlib.ExitStack() as ending:
        if real:
            runtime: Runtime = ending.enter_context(Containerd())
        else:
            embedded = Embedded(directory)
            ending.callback(embedded.close)
            embedded.start()
            runtime = embedded
        node = Node(directory, runtime)
        ending.enter_context(node.koordlet)
        ending.enter_context(node.proxy)
        node.proxy.wait_for_server("koordlet")
        yield node
