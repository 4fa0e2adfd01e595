"""Space of mounted file systems."""

from __future__ import annotations

import os

from koord_host.kernel_files.filesystem_space import FilesystemSpace


def filesystem_space(path: str) -> FilesystemSpace:
    """The space of the file system that a path is on.

    Raises:
        OSError: there is no such path, or it may not be asked.
    """
    found = os.statvfs(path)
    return FilesystemSpace(
        found.f_bavail * found.f_frsize,
        found.f_blocks * found.f_frsize,
        found.f_favail,
        found.f_files,
    )
