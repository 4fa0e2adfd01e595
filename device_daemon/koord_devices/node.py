"""The node as vendors see it: sysfs, NVML, and commands with deadlines."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path

from koord_host.devices.gpu import GPUInventory
from koord_host.kernel_files.interface import FileTree

from koord_devices.contract import ToolError

PATH = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    ":/opt/rocm/bin:/opt/mxdriver/bin:/usr/local/xpu/bin:/usr/local/Ascend/driver/tools"
)
"""Directories in which vendors install their tools."""

_MOST_BYTES = 4 << 20
_CHUNK = 1 << 16


class LocalNode:
    """Implements ``NodeAccess``; made anew for each probe.

    Tools are those below ``host_root``, where that is not "/": a container has the host's files
    there, and runs them by chroot(1). ``command_seconds`` is the deadline of each command.
    """

    def __init__(
        self,
        tree: FileTree,
        gpus: GPUInventory,
        *,
        sys_root: str = "/sys",
        dev_root: str = "/dev",
        host_root: str = "/",
        command_seconds: float = 10.0,
        path: str = PATH,
    ) -> None:
        self.tree = tree
        self.gpus = gpus
        self.sys_root = sys_root
        self.dev_root = dev_root
        self.steady = time.monotonic()
        self.wall = time.time()
        self._host_root = host_root
        self._seconds = command_seconds
        self._path = path

    def has(self, tool: str) -> bool:
        """True if there is a program of this name."""
        places = (Path(self._host_root, where.lstrip("/"), tool) for where in self._path.split(":"))
        # Links of the host are not followed from here: whoever runs the tool does.
        return any(place.is_symlink() or os.access(place, os.X_OK) for place in places)

    def run(self, *command: str) -> str:
        """Run a command; return its output. Its stderr is only used to explain a failure."""
        if not self.has(command[0]):
            raise ToolError("ToolMissing", f"{command[0]} is not installed in {self._path}")
        argv = [*(() if self._host_root == "/" else ("chroot", self._host_root)), *command]
        shown = " ".join(command)
        environment = {"PATH": self._path, "LC_ALL": "C", "HOME": "/"}
        try:
            process = subprocess.Popen(  # noqa: S603 - vendors' own commands
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError("ToolFailed", f"{shown}: {error.strerror}") from error
        with process:
            printed, complaint = _read(process, shown, time.monotonic() + self._seconds)
        if process.returncode:
            line = " ".join((complaint or printed).split())[:200]
            raise ToolError("ToolFailed", f"{shown} ended with {process.returncode}: {line}")
        return printed


def _read(process: subprocess.Popen[bytes], shown: str, deadline: float) -> tuple[str, str]:
    """Read a process's output until it ends; kill it if it takes or prints too much."""
    parts: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                parts[stream.fileno()] = bytearray()
                selector.register(stream.fileno(), selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(max(left, 0))
            if not ready:
                raise _killed(process, "Timeout", f"{shown} did not end in time")
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                parts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                if len(parts[key.fd]) > _MOST_BYTES:
                    raise _killed(process, "ToolFailed", f"{shown} prints without end")
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        raise _killed(process, "Timeout", f"{shown} did not end in time") from None
    printed, complaint = (part.decode(errors="replace") for part in parts.values())
    return printed, complaint


def _killed(process: subprocess.Popen[bytes], reason: str, message: str) -> ToolError:
    """Kill a process and its children; one that a driver holds dies when that lets it go."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    # So that leaving ``with process`` does not wait for it.
    process.returncode = process.returncode if process.returncode is not None else -signal.SIGKILL
    return ToolError(reason, message)
