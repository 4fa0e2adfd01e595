"""Identity of a place, which distinguishes it from a later one of the same name."""

from __future__ import annotations

import errno

from koord_host.kernel_files import processes
from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS, Knob, PlaceKind
from koord_host.resource_executor.baselines import BaselineValue

_INT63 = (1 << 63) - 1
"""Largest number that a database can hold."""


def identity(files: FileReader, layout: Layout, knob: Knob, place: str) -> int:
    """The inode of a group or directory, the start time of a process; 0 for what there is one of.

    Raises:
        OSError: the place is gone.
    """
    if knob.where is PlaceKind.CGROUP:
        return files.identity(layout.group_path(place, knob.subsystem)) & _INT63
    if knob.where is PlaceKind.DIRECTORY:
        return files.identity(place) & _INT63
    if knob.where is PlaceKind.PROCESS:
        # Inodes of /proc are made up anew whenever the kernel has forgotten them.
        stat = _stat(files, layout, place)
        return processes.start_time(stat)
    return 0


def is_there(files: FileReader, layout: Layout, knob: Knob, place: str) -> bool:
    """True if a place is there, with or without the knob's file."""
    if knob.where is PlaceKind.CGROUP:
        return files.exists(layout.group_path(place, knob.subsystem))
    if knob.where is PlaceKind.DIRECTORY:
        return files.exists(place)
    if knob.where is PlaceKind.PROCESS:
        try:
            _stat(files, layout, place)
        except OSError as error:
            return not _is_gone(error)
        return is_member(files, layout, place)
    return True


def is_member(files: FileReader, layout: Layout, place: str) -> bool:
    """True if a process is still in the group in which it was listed, or none is known."""
    process = processes.parse(place)
    if process is None or not process.group:
        return True
    return process.pid in processes.listed(files, layout.list_file(process.group))


def read(files: FileReader, layout: Layout, knob: Knob, place: str) -> str:
    """The text of a knob's file at a place that has one.

    Raises:
        OSError: gone, another has its name, or refused.
    """
    if knob.where is PlaceKind.PROCESS:
        _stat(files, layout, place)
    return files.read(layout.path(knob, place))


def _stat(files: FileReader, layout: Layout, place: str) -> str:
    """Read the kernel's status line of a process.

    Raises:
        OSError: it has ended, or cannot be read.
    """
    process = processes.parse(place)
    if process is None:
        raise FileNotFoundError(errno.ENOENT, f"{place} is not a process")
    stat = files.read(f"{layout.proc_root}/{process.pid}/{processes.STAT}")
    processes.verify(process, stat)
    return stat


def is_same(files: FileReader, layout: Layout, baseline: BaselineValue) -> bool:
    """True if a place is the one of the baseline, not a later one of its name."""
    knob = KNOBS.get(baseline.target.knob)
    if knob is None:
        # Of a release that knew other knobs.
        return False
    try:
        return identity(files, layout, knob, baseline.target.place) == baseline.identity
    except OSError as error:
        return not _is_gone(error)


def _is_gone(error: OSError) -> bool:
    return isinstance(error, FileNotFoundError | NotADirectoryError | ProcessLookupError)
