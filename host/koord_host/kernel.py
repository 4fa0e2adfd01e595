"""The one module that opens kernel files for writing.

Only programs' ``main`` modules import it, and hand it to the executor
(``tests/host/test_one_writer.py``). Everything else of the project reads, or wishes.
"""

from __future__ import annotations

import contextlib
import os

_CHUNK = 1 << 16
_WHOLE = 2048
"""A kernel gives less than a page only at the end of a file, or of a record."""
_READ = os.O_RDONLY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_BOTH = os.O_RDWR | os.O_CLOEXEC
_KERNEL_ROOTS = ("/proc", "/sys")


class Kernel:
    """The kernel's files; implements ``koord_host.files.KernelFiles`` and ``Tree``.

    Paths below ``roots`` are the kernel's: written in place, never made. Any other is an
    agent's file: written aside and renamed, so that whoever reads it sees all of the
    old text or all of the new.
    """

    def __init__(self, roots: tuple[str, ...] = _KERNEL_ROOTS) -> None:
        self._roots = tuple(f"{root.rstrip('/')}/" for root in roots)

    def read(self, path: str) -> str:
        """The whole text of a file."""
        file = os.open(path, _READ)
        try:
            return _text(file)
        finally:
            os.close(file)

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
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
        file = os.open(path, _BOTH)
        try:
            os.write(file, text.encode())
            os.lseek(file, 0, os.SEEK_SET)
            return _text(file)
        finally:
            os.close(file)

    def make_directory(self, path: str) -> None:
        """Make a group."""
        os.mkdir(path, 0o755)  # noqa: PTH102

    def remove_directory(self, path: str) -> None:
        """Remove a group."""
        os.rmdir(path)  # noqa: PTH106


def _text(file: int) -> str:
    """What is left to read of an open file."""
    data = os.read(file, _CHUNK)
    if len(data) >= _WHOLE:
        while more := os.read(file, _CHUNK):
            data += more
    return data.decode(errors="replace")


def _replace(path: str, text: str) -> None:
    aside = f"{path}.pykoord-{os.getpid()}"
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(text)
        os.replace(aside, path)  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(aside)  # noqa: PTH108
        raise
