"""Writes in any order: the same on a kernel and on its double must give the same.

The candidates are the values at which kernels change their mind. Memory limits stay
above what a kernel charges a group for its own sake.
"""

from __future__ import annotations

from tests.support.fake_cgroupfs import FakeCgroupfs
from tests.support.kernel_rules import Bench, PlainFiles, sleeper
from tests.support.kernel_rules_table import PID, Step

GROUPS = ("", "a", "a/b", "a/c")
_CPUS = ("0", "1", "0-1", "\n", "1,0", "all", "7-", "0-100000")
_MEMS = ("0", "\n", "0-0", "100000", "")
_QUOTAS = ("-1", "999", "1000", "20000", "25000", "33333", "50000", "100000", "200000", "0", " 7")
_PERIODS = ("1000", "30000", "50000", "99999", "100000", "1000000", "999", "1000001")
_BURSTS = ("0", "1000", "20000", "25000", "50000", "100000", "-1", "17592186044416")
_IDLE = ("0", "1", "2", "-1", "")
_SIZES = ("4M", "8388608", "8388609", "64M", "1G", "9223372036854775807", "1Mi", "8E")
_RATES = ("254:0 0", "254:0 1048576", "99:99 1", "254:0", "254:0 x", "254:0 4294967295")
_IO = ("254:0 rbps=4096", "254:0 wiops=10 rbps=max", "254:0 rbps=0", "99:99 rbps=1", "254:0 x=5")

WRITES: dict[int, dict[str, tuple[str, ...]]] = {
    1: {
        "cpu.shares": ("0", "2", "1024", "262144", "262145", "-1", "x", ""),
        "cpu.idle": _IDLE,
        "cpu.cfs_quota_us": _QUOTAS,
        "cpu.cfs_period_us": _PERIODS,
        "cpu.cfs_burst_us": _BURSTS,
        "cpuset.cpus": _CPUS,
        "cpuset.mems": _MEMS,
        "cpuset:tasks": (PID, "4194305", "x"),
        "cpu:cgroup.procs": (PID, "-1"),
        "memory.limit_in_bytes": (*_SIZES, "-1", "max"),
        "memory.memsw.limit_in_bytes": (*_SIZES, "-1", "max"),
        "blkio.throttle.read_bps_device": _RATES,
        "blkio.throttle.write_iops_device": _RATES,
    },
    2: {
        "cpu.weight": ("0", "1", "79", "100", "10000", "10001", "-1", ""),
        "cpu.idle": _IDLE,
        "cpu.max": (
            *(f"{quota} {period}" for quota in _QUOTAS for period in _PERIODS),
            *_QUOTAS,
            *("max", "max 50000", "maxx", "\n"),
        ),
        "cpu.max.burst": _BURSTS,
        "cpuset.cpus": _CPUS,
        "cpuset.mems": _MEMS,
        "cgroup.procs": (PID, "4194305", "x"),
        "cgroup.subtree_control": ("+cpu", "-cpu", "+memory -io", "-memory", "+io", "+x"),
        "memory.max": (*_SIZES, "-1", "max"),
        "memory.high": (*_SIZES, "-1", "max"),
        "memory.low": (*_SIZES, "-1", "max"),
        "memory.min": (*_SIZES, "-1", "max"),
        "io.max": _IO,
    },
}
#: What a write may change elsewhere, and so is compared after each.
_WATCHED = {
    1: ("cpu.cfs_quota_us", "cpu.shares", "cpuset.cpus", "cpuset.effective_cpus", "cpuset:tasks"),
    2: (
        *("cpu.max", "cpu.weight", "cpuset.cpus.effective", "cgroup.procs", "memory.max"),
        *("cgroup.controllers", "cgroup.subtree_control"),
    ),
}


def step(group: str, file: str, text: str) -> Step:
    """A write whose answer the table does not say."""
    return Step("write", group, file, text, ())


def differences(real: Bench, double: Bench, steps: list[Step], pid: int) -> list[str]:
    """Take the steps on both, until they differ."""
    done = []
    for one in steps:
        answers = (real.take(one, pid), double.take(one, pid))
        done.append(f"{one}: {answers[0]!r}")
        if answers[0] != answers[1]:
            return [*done, f"the double said {answers[1]!r}"]
        for group in GROUPS:
            for file in _WATCHED[real.version]:
                look = step(group, file, "")
                answers = (real.take(look, pid), double.take(look, pid))
                if answers[0] != answers[1]:
                    return [*done, f"{group}/{file} then is {answers[0]!r}, double {answers[1]!r}"]
    return []


def pair(
    version: int, root: str, base: str, cpus: str, kernel: tuple[int, int]
) -> tuple[Bench, Bench]:
    """A kernel's and a double's place for the same groups."""
    fake = FakeCgroupfs(version, root, cpus=cpus, kernel=kernel)
    return Bench(PlainFiles(), version, root, base), Bench(fake, version, root, base)


def compare(version: int, root: str, base: str, steps: list[Step]) -> list[str]:
    """Take the steps on fresh groups of a kernel and of a double."""
    benches = pair(version, root, base, *_machine())
    try:
        with sleeper() as pid:
            fake = benches[1].files
            assert isinstance(fake, FakeCgroupfs)
            fake.machine.pids.add(pid)
            for bench in benches:
                bench.make(GROUPS[1:])
            found = differences(benches[0], benches[1], steps, pid)
            fake.check()
            return found
    finally:
        benches[0].remove()


def _machine() -> tuple[str, tuple[int, int]]:
    with open("/sys/devices/system/cpu/online") as file:
        cpus = file.read().strip()
    with open("/proc/sys/kernel/osrelease") as file:
        major, minor = file.read().split(".")[:2]
    return cpus, (int(major), int(minor))
