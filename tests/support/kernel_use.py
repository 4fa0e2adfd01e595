"""What the kernel's own files, and ps, say of the use of a node and its pods (cgroup v1).

Read here by other means than koordlet's, to be compared with what koordlet says.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_TICKS = os.sysconf("SC_CLK_TCK")
_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ = 1, 2, 3, 6, 7
"""Places in the first line of /proc/stat."""


@dataclass(frozen=True)
class GroupUse:
    """A cgroup's counters: nanoseconds, bytes, periods of its quota."""

    cpu: int
    memory: int
    periods: int
    throttled: int


@dataclass(frozen=True)
class ProcessUse:
    """A process's counters: seconds by /proc/PID/stat, bytes by smaps_rollup, both by ps.

    ps knows whole seconds only, and counts pages of files too. What is shared is divided.
    """

    cpu: float
    anonymous: int
    ps_cpu: int
    ps_memory: int


@dataclass(frozen=True)
class KernelUse:
    """All of it at one time (``at``: the steady clock, in seconds)."""

    at: float
    node_cpu: float
    groups: Mapping[str, GroupUse]
    processes: Mapping[int, ProcessUse]

    @classmethod
    def now(cls, groups: Iterable[str], pids: Iterable[int]) -> KernelUse:
        """Counters first: those move while ps runs."""
        pids = tuple(pids)
        at, node_cpu = time.monotonic(), _node_cpu()
        used = {group: _of_group(group) for group in groups}
        seconds = {pid: _cpu(pid) for pid in pids}
        ps = _ps(pids)
        by_pid = {pid: ProcessUse(seconds[pid], _anonymous(pid), *ps[pid]) for pid in pids}
        return cls(at, node_cpu, used, by_pid)


def processes(group: str) -> tuple[int, ...]:
    """The processes of a cgroup and those below."""
    files = (_CGROUPS / "cpuacct" / group).rglob("cgroup.procs")
    return tuple(sorted(int(pid) for file in files for pid in file.read_text().split()))


def process_cpu(pid: int) -> float:
    """Seconds of CPU that a process has used, its threads included."""
    return _cpu(pid)


def _node_cpu() -> float:
    words = Path("/proc/stat").read_text().splitlines()[0].split()
    return sum(int(words[place]) for place in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)) / _TICKS


def _of_group(group: str) -> GroupUse:
    memory = _fields(_CGROUPS / "memory" / group / "memory.stat")
    quota = _fields(_CGROUPS / "cpu" / group / "cpu.stat")
    return GroupUse(
        int((_CGROUPS / "cpuacct" / group / "cpuacct.usage").read_text()),
        # By what it is; koordlet adds up the lists that the kernel has it in.
        memory["total_rss"] + memory["total_shmem"],
        quota["nr_periods"],
        quota["nr_throttled"],
    )


def _fields(file: Path) -> dict[str, int]:
    lines = (line.split() for line in file.read_text().splitlines())
    return {name: int(value) for name, value in lines}


def _cpu(pid: int) -> float:
    # The name in brackets may have blanks in it.
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def _anonymous(pid: int) -> int:
    """Memory that is no file's."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    return (int(found["Pss_Anon"]) + int(found["Pss_Shmem"])) << 10


def _ps(pids: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """Seconds of CPU, and bytes."""
    command = ["ps", "-o", "pid=,cputimes=,pss=", "-p", ",".join(map(str, pids))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = (map(int, line.split()) for line in done.stdout.splitlines())
    return {pid: (seconds, kib << 10) for pid, seconds, kib in lines}
