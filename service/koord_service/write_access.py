"""Access of others to files that are trusted for who wrote them."""

from __future__ import annotations

import os
import stat


def may_everybody_write(status: os.stat_result) -> bool:
    """True if everybody may write to the file, or make and replace files in the directory."""
    return bool(status.st_mode & stat.S_IWOTH)
