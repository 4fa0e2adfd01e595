"""Programs beside koordlet on the node: a resource plugin, who talks to a pod, and the kernel.

They are threads of the scenario: on an emulated machine another Python takes long to start.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from koordlet.agent.config import PLUGIN_DIRECTORY

from tests.support.resource_plugin import CpuPlugin
from tests.vm import managed, node, slices

AFFINITY = "smp_affinity_list"
COUNTED = ("cpu.stat", "memory.events.local", "io.stat")
"""Files of a group whose numbers only grow."""
READ = (
    *COUNTED,
    *("cpu.max", "cpu.weight", "cpu.weight.nice", "cpu.max.burst", "cpu.pressure"),
    *("memory.stat", "memory.numa_stat", "memory.current", "memory.pressure"),
    *(f"memory.{name}" for name in ("max", "high", "low", "min", "swap.max", "swap.current")),
    *("cpuset.cpus.effective", "cpuset.mems.effective", "io.pressure"),
)


def plug() -> Callable[[], None]:
    """Run a resource plugin; what is returned ends it."""
    loop, end = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        directory = Path(PLUGIN_DIRECTORY)
        directory.mkdir(parents=True, exist_ok=True)
        plugin = CpuPlugin(
            directory / "quiet.sock", managed.ALLOCATED_CPUS, resource=managed.ALLOCATED_RESOURCE
        )
        async with plugin.server:
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()

    def unplug() -> None:
        loop.call_soon_threadsafe(end.set)
        thread.join(30)

    return unplug


def talk() -> None:
    """Send to the pod's port, and read what comes back, as long as that goes on."""
    for address in (managed.NEAR, managed.FAR):
        node.run(f"busybox ip address add {address}/32 dev lo")
    node.run("modprobe tcp_diag")
    made: list[socket.socket] = []

    def connected() -> bool:
        # Within the host, but not of an address with itself: that would not count.
        there, here = (managed.NEAR, managed.PORT), (managed.FAR, 0)
        made.append(socket.create_connection(there, 10, here))
        return True

    node.until("the pod's port", connected)

    def echo() -> None:
        with contextlib.suppress(OSError):
            while made[-1].send(b"x" * 100) and made[-1].recv(1000):
                time.sleep(0.1)

    threading.Thread(target=echo, daemon=True).start()


def interrupts() -> dict[str, str]:
    """The CPUs of each interrupt of a network card's queue, by its file."""
    lines = Path("/proc/interrupts").read_text().splitlines()
    rows = [line.split() for line in lines if line.endswith(("-input.0", "-output.0"))]
    files = [Path("/proc/irq", words[0].rstrip(":"), AFFINITY) for words in rows]
    return {str(file): file.read_text().strip() for file in files}


def malachite(group: Path) -> dict[str, Any]:
    """Malachite's page of a group, and what the kernel said of it before and after."""
    path = f"/{group.relative_to(slices.CGROUP)}"
    # The first question about a group that koordlet did not find at its start has no answer yet.
    with contextlib.suppress(urllib.error.HTTPError):
        _page(f"cgroup/groups?cgroup_user_path={path}")
    first = _usage(group), time.monotonic()
    time.sleep(2)
    before = _texts(group)
    page = _page(f"cgroup/groups?cgroup_user_path={path}")
    after = _texts(group)
    cores = (_usage(group) - first[0]) / (time.monotonic() - first[1])
    return {"path": path, "page": page, "before": before, "after": after, "cores": cores}


def system() -> dict[str, Any]:
    """Malachite's pages of the machine."""
    names = ("compute", "memory", "io", "network", "info")
    return {name: _page(f"system/{name}") for name in names}


def _page(path: str) -> Any:
    with urllib.request.urlopen(f"http://{managed.MALACHITE}/api/v1/{path}", timeout=30) as answer:
        return json.load(answer)["data"]


def _usage(group: Path) -> float:
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


def _texts(group: Path) -> dict[str, str]:
    return {name: (group / name).read_text() for name in READ if (group / name).exists()}
