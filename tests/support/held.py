"""Directories of processes that are held open, of doubles whose files are known by their paths."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class _Files(Protocol):
    def read(self, path: str) -> str: ...

    def write_and_read(self, path: str, text: str) -> str: ...


class HeldByPath:
    """Gives a double ``koord_host.kernel_files.interface.KernelFiles.held``: as of /proc/PID.

    Once another process has the number, or none, nothing can be done through it.
    """

    @contextmanager
    def held(self: _Files, path: str) -> Iterator[_Held]:
        yield _Held(self, path)


class _Held:
    def __init__(self, files: _Files, path: str) -> None:
        self._files = files
        self._path = path
        self._stat = files.read(f"{path}/stat")

    def read(self, name: str) -> str:
        self._check()
        return self._files.read(f"{self._path}/{name}")

    def write_and_read(self, name: str, text: str) -> str:
        self._check()
        return self._files.write_and_read(f"{self._path}/{name}", text)

    def _check(self) -> None:
        try:
            same = self._files.read(f"{self._path}/stat") == self._stat
        except FileNotFoundError:
            same = False
        if not same:
            raise ProcessLookupError(errno.ESRCH, "No such process", self._path)
