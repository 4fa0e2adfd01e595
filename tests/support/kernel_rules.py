"""What kernels answer to writes into cgroup files: a table, and what runs it.

The same table is run against a kernel and against the test double. It needs only
the standard library, so a bare machine can run it too, as root:
``python3 -m tests.support.kernel_rules 2 /sys/fs/cgroup``.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tests.support.kernel_rules_table import CASES, PID, Case, Step

V1_SUBSYSTEMS = ("cpu", "cpuset", "memory", "blkio", "pids")
V2_CONTROLLERS = "+cpuset +cpu +io +memory +pids"


class Files(Protocol):
    """The part of ``KernelFiles`` that the table needs."""

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None: ...

    def make_directory(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...


class PlainFiles:
    """The kernel's own files by one system call each."""

    def read(self, path: str) -> str:
        with open(path) as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make_directory(self, path: str) -> None:
        os.mkdir(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)


class Bench:
    """Groups of one's own below ``root``, made and removed alike on kernel and double."""

    def __init__(self, files: Files, version: int, root: str, base: str) -> None:
        self.files = files
        self.version = version
        self.root = root
        self.base = base
        self._made: list[str] = []

    def path(self, group: str, file: str) -> str:
        """Where a file is; ``cpuset:tasks`` names the hierarchy, ``cpu.idle`` implies it."""
        subsystem, colon, name = file.partition(":")
        if not colon:
            subsystem, name = file.partition(".")[0], file
        return f"{self._directory(group, subsystem)}/{name}".rstrip("/")

    def _directory(self, group: str, subsystem: str) -> str:
        parts = (self.root, subsystem if self.version == 1 else "", self.base, group)
        return "/".join(part for part in parts if part)

    def make(self, groups: Iterable[str]) -> None:
        """Make the base and these groups, as a container runtime would leave them."""
        for group in ("", *groups):
            for subsystem in V1_SUBSYSTEMS if self.version == 1 else ("",):
                self._make(self._directory(group, subsystem), subsystem)

    def _make(self, path: str, subsystem: str) -> None:
        parent = path.rpartition("/")[0]
        if self.version == 2:
            self.files.write(f"{parent}/cgroup.subtree_control", V2_CONTROLLERS)
        self.files.make_directory(path)
        self._made.append(path)
        if subsystem == "cpuset":
            for name in ("cpuset.cpus", "cpuset.mems"):
                self.files.write(f"{path}/{name}", self.files.read(f"{parent}/{name}"))

    def remove(self) -> None:
        """Remove what was made, and what the table made below it."""
        while self._made:
            self.files.remove_directory(self._made.pop())

    def take(self, step: Step, pid: int) -> str | int:
        """Do it: the text read back, or the errno."""
        path, text = self.path(step.group, step.file), step.text.replace(PID, str(pid))
        try:
            if step.what == "mkdir":
                self.files.make_directory(path)
                self._made.append(path)
            elif step.what == "rmdir":
                self.files.remove_directory(path)
                self._made.remove(path)
            else:
                self.files.write(path, text)
            read = self.files.read(path) if step.what == "write" else ""
        except OSError as error:
            return error.errno or 0
        return read.replace(str(pid), PID) if PID in step.text else read


@contextmanager
def sleeper() -> Iterator[int]:
    """A process to put into groups, by its id."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def differences(bench: Bench, case: Case, pid: int) -> list[str]:
    """Run a case; what came out otherwise than the table says."""
    found = []
    for number, step in enumerate(case.steps):
        got = bench.take(step, pid)
        if got not in step.gives:
            wanted = " or ".join(_shown(one) for one in step.gives)
            found.append(f"{case.name}, step {number}: {step}: {_shown(got)}, not {wanted}")
    return found


def _shown(answer: str | int) -> str:
    return errno.errorcode[answer] if isinstance(answer, int) else repr(answer)


def cases(version: int) -> list[Case]:
    """The cases of the table for a version."""
    return [case for case in CASES if version in case.versions]


def main() -> int:
    """Run the table against the kernel below; 1 if it differs anywhere."""
    version, root = int(sys.argv[1]), sys.argv[2]
    failed = []
    for number, case in enumerate(cases(version)):
        bench = Bench(PlainFiles(), version, root, f"pykoord-test-{os.getpid()}-{number}")
        try:
            with sleeper() as pid:
                bench.make(case.groups)
                failed += differences(bench, case, pid)
        finally:
            bench.remove()
    print(*failed, sep="\n")
    print(f"cgroup v{version}: {len(cases(version))} cases, {len(failed)} differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
