"""What tells a place from a later one of the same name."""

from __future__ import annotations

from koord_host.files import Reader
from koord_host.knobs import KNOBS, Knob, Where
from koord_host.layout import Layout
from koord_host.originals import Original

_START_TIME = 19
"""In /proc/PID/stat, counted from the state that follows the name's bracket."""
_INT63 = (1 << 63) - 1
"""What a database can hold."""


def identity(files: Reader, layout: Layout, knob: Knob, place: str) -> int:
    """The inode of a group, the start time of a process; 0 for what there is one of.

    Raises:
        OSError: the place is gone.
    """
    if knob.where is Where.CGROUP:
        return files.identity(layout.group_path(place, knob.subsystem)) & _INT63
    if knob.where is Where.PROCESS:
        # Inodes of /proc are made up anew whenever the kernel has forgotten them.
        stat = files.read(f"{layout.proc_root}/{place}/stat")
        return int(stat.rpartition(")")[2].split()[_START_TIME])
    return 0


def is_there(files: Reader, layout: Layout, knob: Knob, place: str) -> bool:
    """Whether a place is there, with or without the knob's file."""
    if knob.where is Where.CGROUP:
        return files.exists(layout.group_path(place, knob.subsystem))
    if knob.where is Where.PROCESS:
        return files.exists(f"{layout.proc_root}/{place}")
    return True


def is_same(files: Reader, layout: Layout, original: Original) -> bool:
    """Whether a place is the one that was remembered, not a later one of its name."""
    knob = KNOBS.get(original.target.knob)
    if knob is None:
        # Of a release that knew other knobs.
        return False
    try:
        return identity(files, layout, knob, original.target.place) == original.identity
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError | ProcessLookupError)
