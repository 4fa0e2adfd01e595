"""The one module that opens kernel files for writing.

Only programs' ``main`` modules import it, and hand it to the executor
(``tests/host/resource_executor/test_one_writer.py``). All other modules read, or say what
they want.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from koord_service.whole_file import write_whole

_CHUNK = 1 << 16
_HOLD = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_BOTH = os.O_RDWR | os.O_CLOEXEC
_NICE = "nice"
_KERNEL_ROOTS = ("/proc", "/sys")


class KernelFilesystem:
    """The kernel's files: ``KernelFiles`` and ``Tree`` of ``koord_host.kernel_files.interface``.

    Paths below ``roots`` are the kernel's: written in place, never made. Any other is an
    agent's file: written aside and renamed, so that whoever reads it sees all of the
    old text or all of the new. A process seems to have a file "nice", which the kernel has as
    two system calls.
    """

    def __init__(self, roots: tuple[str, ...] = _KERNEL_ROOTS) -> None:
        self._roots = tuple(f"{root.rstrip('/')}/" for root in roots)

    def read(self, path: str) -> str:
        """The whole text of a file."""
        directory, _, name = path.rpartition("/")
        if name == _NICE and (pid := _process(directory)):
            return _nice(pid)
        return _all(os.open(path, _READ))

    def exists(self, path: str) -> bool:
        """True if a file or directory exists."""
        try:
            os.stat(path)  # noqa: PTH116 - on the hot path
        except (OSError, ValueError):
            return False
        return True

    def entries(self, path: str) -> list[str]:
        """The names of a directory's sub-directories, sorted."""
        with os.scandir(path) as found:
            return sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))

    def names(self, path: str) -> list[str]:
        """The names of everything in a directory, sorted."""
        return sorted(os.listdir(path))  # noqa: PTH208 - on the hot path

    def resolve(self, path: str) -> str:
        """The path with its links followed."""
        return os.path.realpath(path, strict=True)

    def identity(self, path: str) -> int:
        """A directory's inode."""
        return os.stat(path).st_ino  # noqa: PTH116 - on the hot path

    def write(self, path: str, text: str) -> None:
        """Hand ``text`` to the kernel in one write, or replace an agent's file."""
        if not path.startswith(self._roots):
            _replace(path, text)
            return
        file = os.open(path, _WRITE)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def write_and_read(self, path: str, text: str) -> str:
        """Write, and read the whole text that the file has then."""
        if not path.startswith(self._roots):
            _replace(path, text)
            return self.read(path)
        return _written(os.open(path, _BOTH), text)

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[_OpenDirectory]:
        """A directory, held open meanwhile."""
        directory = os.open(path, _HOLD)
        try:
            yield _OpenDirectory(directory, _process(path))
        finally:
            os.close(directory)

    def make_directory(self, path: str) -> None:
        """Make a group."""
        os.mkdir(path, 0o755)  # noqa: PTH102

    def remove_directory(self, path: str) -> None:
        """Remove a group."""
        os.rmdir(path)  # noqa: PTH106


class _OpenDirectory:
    """An open directory; implements ``koord_host.kernel_files.interface.Directory``."""

    def __init__(self, directory: int, pid: int) -> None:
        self._directory = directory
        self._pid = pid

    def read(self, name: str) -> str:
        return _all(os.open(name, _READ, dir_fd=self._directory))

    def write_and_read(self, name: str, text: str) -> str:
        if name == _NICE and self._pid:
            os.setpriority(os.PRIO_PROCESS, self._pid, int(text))
            self.read("stat")  # fails if it has ended: the number may be another's by now
            return _nice(self._pid)
        return _written(os.open(name, _BOTH, dir_fd=self._directory), text)


def _process(directory: str) -> int:
    """The process whose directory in /proc it is; 0 if it is none's."""
    parent, _, name = directory.rpartition("/")
    return int(name) if parent == "/proc" and name.isdigit() else 0


def _nice(pid: int) -> str:
    return f"{os.getpriority(os.PRIO_PROCESS, pid)}\n"


def _all(file: int) -> str:
    """The whole text of a file that was just opened; closes it."""
    try:
        return _text(file)
    finally:
        os.close(file)


def _written(file: int, text: str) -> str:
    """Write to a file that was just opened, and read it; closes it."""
    try:
        os.write(file, text.encode())
        os.lseek(file, 0, os.SEEK_SET)
        return _text(file)
    finally:
        os.close(file)


def _text(file: int) -> str:
    """Return the rest of an open file.

    Until nothing comes: a file that the kernel makes up record by record gives what fits
    before its next long record, however little that is.
    """
    parts = []
    while part := os.read(file, _CHUNK):
        parts.append(part)
    return b"".join(parts).decode(errors="replace")


def _replace(path: str, text: str) -> None:
    # The fast lane must not wait for a disk, and a missing directory means that no agent runs.
    write_whole(Path(path), text.encode(), mode=0o644, directory_mode=None, sync=False)
