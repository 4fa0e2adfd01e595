"""The two nodes the demo can play on: an embedded runtime and a real containerd."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from koord_model import cpuset

from koord_demo import cgroups
from koord_demo.cgroups import CgroupValues
from koord_demo.cri_client import Cri
from koord_demo.programs import DemoError, running

_PACKAGES = Path(__file__).parents[2] / "tools" / "system_packages"


@dataclasses.dataclass(frozen=True)
class DemoNode:
    """A runtime with its socket, and where its containers' limits can be read."""

    title: str
    address: Path
    cgroup_root: str
    values: Callable[[Cri, str, str], CgroupValues]
    """Limits now in force, by client, cgroup parent and container id."""
    place: Callable[[Cri, str, str], str]
    """Location of a container's values, for people."""
    rounds: int
    """Number of timed calls of a kind; real ones take longer."""


@contextlib.contextmanager
def embedded_node(directory: Path) -> Iterator[DemoNode]:
    """The embedded runtime as a process of its own; no root needed."""
    socket, root = directory / "runtime.sock", directory / "cgroup"

    def values(cri: Cri, parent: str, container_id: str) -> CgroupValues:
        return _rendered(root / parent.lstrip("/") / container_id)

    def place(cri: Cri, parent: str, container_id: str) -> str:
        return f"{root}{parent}/{container_id[:12]}…"

    command = [sys.executable, "-m", "koord_demo.runtime", "--cpus", cpuset.render(_cpus())]
    title = "an embedded runtime (simulated: cgroup files are plain files)"
    with running("embedded runtime", [*command, "--socket", str(socket), "--root", str(root)]) as p:
        p.wait_until(socket.exists)
        yield DemoNode(title, socket, "/kubepods", values, place, 300)


def _cpus() -> frozenset[int]:
    """Those of this machine."""
    return frozenset(range(os.cpu_count() or 1))


@contextlib.contextmanager
def containerd_node() -> Iterator[DemoNode]:
    """A containerd of our own, installed first where it is missing and we may.

    Raises:
        DemoError: it cannot run here.
    """
    from koord_demo.containerd import Containerd, why_not

    if why_not() is not None and _PACKAGES.exists():
        subprocess.run([_PACKAGES, "test"], check=False)
    reason = why_not()
    if reason is not None:
        raise DemoError(f"{reason}; without it: make demo")

    def values(cri: Cri, parent: str, container_id: str) -> CgroupValues:
        return cgroups.container_values(cri, container_id)

    def place(cri: Cri, parent: str, container_id: str) -> str:
        group = cgroups.group(cgroups.container_pid(cri, container_id), "cpu")
        return f"{str(group)[:-52]}…, and beside it for memory and cpuset"

    with Containerd() as containerd:
        title = "a real containerd and runc"
        yield DemoNode(title, containerd.address, containerd.cgroup_root, values, place, 40)


def _rendered(directory: Path) -> CgroupValues:
    def number(name: str) -> int:
        return int((directory / name).read_text())

    return CgroupValues(
        cpu_shares=number("cpu.shares"),
        cpu_weight=None,
        cpu_quota=number("cpu.cfs_quota_us"),
        cpu_period=number("cpu.cfs_period_us"),
        memory_limit=number("memory.limit_in_bytes"),
        cpuset=(directory / "cpuset.cpus").read_text().strip(),
    )
