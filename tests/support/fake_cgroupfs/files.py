"""Which files a group has: by version, controllers, vendor, and whether it is the root."""

from __future__ import annotations

from functools import lru_cache

from tests.support.fake_cgroupfs import costs, cpu, cpuset, disks, membership, memory, small
from tests.support.fake_cgroupfs.group import File

Table = dict[str, File]

SUBSYSTEMS = ("cpu", "cpuacct", "cpuset", "memory", "blkio", "net_cls", "pids")
_V1: dict[str, Table] = {
    "cpu": cpu.V1,
    "cpuacct": small.CPUACCT,
    "cpuset": cpuset.V1,
    "memory": memory.V1,
    "blkio": disks.V1,
    "net_cls": small.NET_CLS,
    "pids": {},
}
_V2: dict[str, Table] = {
    "cpu": cpu.V2,
    "cpuset": cpuset.V2,
    "memory": memory.V2,
    "io": disks.V2,
    "pids": {},
}


@lru_cache(maxsize=64)
def of_v1(subsystem: str, *, root: bool, vendor: bool) -> Table:
    """The files of a group in the hierarchy of one subsystem."""
    own = _V1[subsystem]
    extra = small.VENDOR_V1.get(subsystem, {}) if vendor else {}
    if vendor and root and subsystem == "blkio":
        extra = costs.V1_VENDOR_ROOT
    return membership.V1 | own | extra


@lru_cache(maxsize=256)
def of_v2(controllers: frozenset[str], *, vendor: bool) -> Table:
    """The files of a group that has these controllers."""
    found = membership.V2_ROOT | small.PRESSURE | small.CPU_STAT
    for name in controllers:
        found |= _V2[name] | (small.VENDOR_V2.get(name, {}) if vendor else {})
    return found


def of_v2_root() -> Table:
    return (
        membership.V2_ROOT
        | small.PRESSURE
        | small.CPU_STAT
        | cpuset.V2_ROOT
        | memory.V2_ROOT
        | costs.V2_ROOT
    )  # fmt: skip
