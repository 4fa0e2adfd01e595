"""A directory of files that behaves like the v1 cgroups runc writes.

A test double: the rules were read off runc 1.1.5 on Linux 6. What the kernel
or runc would refuse is refused before anything is written.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

from koord_model import cpuset

from koord_demo import cri_client_pb2 as pb
from koord_demo.cgroups import UNLIMITED

SHARES = range(2, 262_144 + 1)
PERIODS = range(1_000, 1_000_000 + 1)
"""Microseconds."""
SMALLEST_QUOTA = 1_000
"""Microseconds."""

_PAGE = 4096


class KernelRefusedError(ValueError):
    """A value no kernel takes; the message names the file and the value."""


@dataclasses.dataclass(frozen=True)
class CgroupLimits:
    """A container's limits as its runtime spec has them: 0 and "" are not set."""

    shares: int = 0
    quota: int = 0
    period: int = 0
    memory: int = 0
    swap: int = 0
    cpus: str = ""
    mems: str = ""

    def overlaid(self, linux: pb.LinuxContainerResources) -> CgroupLimits:
        """Limits after a request, as in containerd: fields at their default change nothing."""
        given = {
            "shares": linux.cpu_shares,
            "quota": linux.cpu_quota,
            "period": linux.cpu_period,
            "memory": linux.memory_limit_in_bytes,
            # A container that may not have more memory may not swap instead.
            "swap": linux.memory_swap_limit_in_bytes or linux.memory_limit_in_bytes,
            "cpus": linux.cpuset_cpus,
            "mems": linux.cpuset_mems,
        }
        return dataclasses.replace(self, **{k: v for k, v in given.items() if v})  # type: ignore[arg-type]

    def spec(self) -> dict[str, Any]:
        """The part ``linux.resources`` of an OCI runtime spec."""
        cpu = {name: getattr(self, name) for name in ("shares", "quota", "period", "cpus", "mems")}
        memory = {"limit": self.memory, "swap": self.swap}
        return {
            "cpu": {k: v for k, v in cpu.items() if v},
            "memory": {k: v for k, v in memory.items() if v},
        }


class CgroupTree:
    """Groups as directories below ``root``, each with the files of a few v1 knobs."""

    def __init__(self, root: Path, cpus: str = "0-7") -> None:
        """``cpus`` are those the machine is said to have, as a kernel list."""
        self.root = root
        self.cpus = cpus
        root.mkdir(parents=True, exist_ok=True)

    def path(self, group: str) -> Path:
        """Return the directory of a cgroup.

        Raises:
            KernelRefusedError: the name leads out of the tree.
        """
        parts = [part for part in PurePosixPath("/", group).parts if part != "/"]
        if ".." in parts:
            raise KernelRefusedError(f'cgroup "{group}" leads out of the hierarchy')
        return self.root.joinpath(*parts)

    def write(self, group: str, limits: CgroupLimits) -> None:
        """Set a group's limits, making it and its parents where they are missing."""
        files = self._files(limits)
        directory = self.path(group)
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir()
            _write(path, self._files(CgroupLimits()))
        _write(directory, files)

    def note(self, group: str, name: str, value: int) -> None:
        """Keep a value of the group's processes that has no cgroup file."""
        _write(self.path(group), {name: str(value)})

    def read(self, group: str) -> dict[str, str]:
        """The group's files by name; empty where there is no such group."""
        files = self.path(group).glob("*")
        return {file.name: file.read_text().strip() for file in sorted(files) if file.is_file()}

    def remove(self, group: str) -> None:
        """Remove a group; its parents stay, as with runc."""
        shutil.rmtree(self.path(group), ignore_errors=True)

    def _files(self, limits: CgroupLimits) -> dict[str, str]:
        """Return the contents of the files for these limits.

        Raises:
            KernelRefusedError: a value is out of range.
        """
        shares, period = limits.shares or 1024, limits.period or 100_000
        if shares not in SHARES:
            # The kernel would clamp; runc compares what it reads back and fails.
            raise KernelRefusedError(f"cpu.shares: {shares} is not within 2 and 262144")
        if period not in PERIODS:
            raise KernelRefusedError(f"cpu.cfs_period_us: {period}: invalid argument")
        if 0 < limits.quota < SMALLEST_QUOTA:
            raise KernelRefusedError(f"cpu.cfs_quota_us: {limits.quota}: invalid argument")
        if limits.memory < UNLIMITED:
            raise KernelRefusedError(f"memory.limit_in_bytes: {limits.memory}: invalid argument")
        return {
            "cpu.shares": str(shares),
            "cpu.cfs_period_us": str(period),
            "cpu.cfs_quota_us": str(limits.quota if limits.quota > 0 else UNLIMITED),
            # The kernel counts whole pages.
            "memory.limit_in_bytes": str(
                limits.memory // _PAGE * _PAGE if limits.memory > 0 else UNLIMITED
            ),
            "cpuset.cpus": self._cpuset(limits.cpus),
        }

    def _cpuset(self, text: str) -> str:
        try:
            wanted = cpuset.parse(text or self.cpus)
        except ValueError as error:
            raise KernelRefusedError(f"cpuset.cpus: {error}") from None
        if not wanted <= cpuset.parse(self.cpus):
            raise KernelRefusedError(f"cpuset.cpus: {text}: this machine has {self.cpus}")
        return cpuset.render(wanted)


def _write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.touch()
        # To truncate first would make ext4 wait for the disk at every close.
        with path.open("r+") as file:
            file.write(text + "\n")
            file.truncate()
