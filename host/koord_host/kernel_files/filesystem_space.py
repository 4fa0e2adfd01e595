"""Space of a mounted file system, as statvfs(3) says it. No IO."""

from __future__ import annotations

from typing import NamedTuple


class FilesystemSpace(NamedTuple):
    """Bytes and inodes of a file system; ``available`` is without what root alone may use."""

    available: int
    capacity: int
    inodes_free: int
    inodes: int
