"""Replacing a file whole or not at all: whoever reads it sees the old or the new content."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PART = ".part"
"""Suffix of a file that is being written; its name begins with a dot."""


def write_whole(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    directory_mode: int | None = 0o750,
    sync: bool = True,
    part: Path | None = None,
) -> None:
    """Write ``data`` under another name and rename it.

    A missing directory is made with ``directory_mode``, or is an error where that is ``None``.
    ``part`` is that other name, on the same file system, where a file beside ``path`` would be
    taken for one of those that others read; its directory is made, too.
    ``sync`` waits until the disk has the file: without it a crash of the machine may leave it
    empty, while the program's own death never does.

    Raises:
        OSError: it cannot be written; the old file is then as it was.
    """
    if directory_mode is not None:
        path.parent.mkdir(mode=directory_mode, parents=True, exist_ok=True)
    if part is None:
        part = path.with_name(f".{path.name}{PART}")
    else:
        part.parent.mkdir(mode=0o700, exist_ok=True)
    # One that a killed program left; a link there is not followed.
    part.unlink(missing_ok=True)
    try:
        _write(part, data, mode, sync)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    if sync:
        _sync_directory(path.parent)


def _write(path: Path, data: bytes, mode: int, sync: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:  # noqa: PTH123
        # Whatever the umask.
        os.fchmod(file.fileno(), mode)
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    """Let the disk have the new name; the file is in place whether or not that works."""
    with contextlib.suppress(OSError):
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
