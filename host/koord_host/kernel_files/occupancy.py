"""Test for processes in a cgroup, or in groups below it. No IO of its own."""

from __future__ import annotations

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.layout import Layout

_GONE = (FileNotFoundError, NotADirectoryError, ProcessLookupError)


def is_occupied(files: FileReader, layout: Layout, group: str) -> bool:
    """True if a group has processes; one that cannot be read may have some."""
    try:
        if files.read(layout.list_file(group)).strip():
            return True
        below = files.entries(layout.group_path(group, "cpu"))
    except _GONE:
        return False
    except OSError:
        return True
    return any(is_occupied(files, layout, f"{group}/{name}") for name in below)
