"""Limits that the kernel holds for a process: those of its cgroups, read back.

Both hierarchies are understood, also side by side (v1 controllers with an
empty v2 tree). What the controller does not offer is None.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

from koord_demo.cri_client import Cri

UNLIMITED = -1

# What v1 shows for "no limit": the largest number of pages, in bytes.
_NO_LIMIT = 1 << 62


@dataclasses.dataclass(frozen=True)
class CgroupValues:
    """Limits in v1's units, whichever hierarchy they came from; -1 is no limit.

    v2 has no shares: there ``cpu_weight`` is set instead.
    """

    cpu_shares: int | None
    cpu_weight: int | None
    cpu_quota: int | None
    """Microseconds a period."""
    cpu_period: int | None
    """Microseconds."""
    memory_limit: int | None
    """Bytes."""
    cpuset: str | None
    """The CPUs as written, as a kernel list."""


def container_pid(cri: Cri, container_id: str) -> int:
    """The first process of a running container, from its verbose status."""
    info = cri.container_status(container_id, verbose=True).info
    return int(json.loads(info["info"])["pid"])


def container_values(cri: Cri, container_id: str) -> CgroupValues:
    """The limits a running container's first process is really under."""
    return read_values(container_pid(cri, container_id))


def read_values(pid: int) -> CgroupValues:
    """The limits of a process's groups."""
    cpu, memory, cpuset = (group(pid, name) for name in ("cpu", "memory", "cpuset"))
    quota, period = _bandwidth(cpu)
    limit = _number(memory, "memory.max", "memory.limit_in_bytes")
    return CgroupValues(
        cpu_shares=_number(cpu, "cpu.shares"),
        cpu_weight=_number(cpu, "cpu.weight"),
        cpu_quota=quota,
        cpu_period=period,
        memory_limit=UNLIMITED if limit is not None and limit >= _NO_LIMIT else limit,
        cpuset=_text(cpuset, "cpuset.cpus"),
    )


def oom_score_adj(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def group(pid: int, controller: str) -> Path | None:
    """The directory of a process's group for a controller, on either hierarchy."""
    unified: Path | None = None
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mount = mounts().get(controller if controllers else "")
        if controller in controllers.split(",") and mount:
            return mount / path.lstrip("/")
        if not controllers and mount:
            unified = mount / path.lstrip("/")
    return unified


@functools.cache
def mounts() -> dict[str, Path]:
    """Return the mount point of each v1 controller; the key "" is the v2 tree."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, _, source = line.partition(" - ")
        mount = Path(place.split(" ")[4])
        kind, _, options = source.split(" ", 2)
        if kind == "cgroup2":
            found.setdefault("", mount)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, mount)
    return found


def _bandwidth(cpu: Path | None) -> tuple[int | None, int | None]:
    both = _text(cpu, "cpu.max")
    if both is None:
        return _number(cpu, "cpu.cfs_quota_us"), _number(cpu, "cpu.cfs_period_us")
    quota, period = both.split()
    return _parse(quota), int(period)


def _number(directory: Path | None, *names: str) -> int | None:
    texts = (_text(directory, name) for name in names)
    return next((_parse(text) for text in texts if text is not None), None)


def _parse(text: str) -> int:
    return UNLIMITED if text == "max" else int(text)


def _text(directory: Path | None, name: str) -> str | None:
    if directory is None:
        return None
    try:
        return (directory / name).read_text().strip()
    except FileNotFoundError:
        return None
