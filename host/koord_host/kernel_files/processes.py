"""Processes and threads as targets: one that was listed, not whoever has its number later.

The kernel gives a number away again once its owner has ended. So a process is named by the
cgroup in which it was listed, its number and its start time; what is written through its
directory in /proc, held open, reaches it or nobody.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from koord_host.kernel_files.interface import FileReader, KernelFiles, OpenDirectory

STAT = "stat"
_START_TIME = 19
"""In /proc/PID/stat, counted from the state that follows the name's bracket."""
_PLACE = re.compile(r"(?:(?P<group>.+) )?(?P<pid>[0-9]+)(?:@(?P<start>[0-9]+))?")


class Process(NamedTuple):
    """A process or thread as it was listed.

    ``start`` is its start time in the kernel's ticks. Places that were written down before
    it was looked at have only the number: "" and ``None`` stand for what is not known.
    """

    group: str
    pid: int
    start: int | None = None

    @property
    def place(self) -> str:
        """Its name as the place of a target, and in the journal."""
        number = str(self.pid) if self.start is None else f"{self.pid}@{self.start}"
        return f"{self.group} {number}" if self.group else number


def parse(place: str) -> Process | None:
    """The process that a place means, ``None`` where it means none."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return None
    start = found["start"]
    return Process(found["group"] or "", int(found["pid"]), None if start is None else int(start))


def start_time(stat: str) -> int:
    """The start time in the text of /proc/PID/stat; the name in it may be anything."""
    return int(stat.rpartition(")")[2].split(None, _START_TIME + 1)[_START_TIME])


def verify(process: Process, stat: str) -> None:
    """See that the text of a stat file is this process's.

    Raises:
        ProcessLookupError: the process has ended, and another has its number.
    """
    if process.start is not None and start_time(stat) != process.start:
        raise ProcessLookupError(errno.ESRCH, "has ended; another process has its number")


def identify(
    reader: FileReader, proc_root: str, group: str, pids: Iterable[int]
) -> dict[int, Process]:
    """Those that live, by number.

    Whoever has the number by now is meant: list the group again, and take only numbers
    that are still in it. Had one of them changed hands before that, it has another start
    time by then than what is returned here, and no later write reaches anybody.
    """
    found = {}
    for pid in pids:
        try:
            start = start_time(reader.read(f"{proc_root}/{pid}/{STAT}"))
        except (OSError, ValueError, IndexError):
            continue
        found[pid] = Process(group, pid, start)
    return found


def in_group(reader: FileReader, proc_root: str, group: str, list_file: str) -> tuple[Process, ...]:
    """The processes that a cgroup's file lists, in its order; none where it is gone."""
    found = identify(reader, proc_root, group, listed(reader, list_file))
    still: Collection[int] = frozenset(listed(reader, list_file)) if found else ()
    return tuple(process for pid, process in found.items() if pid in still)


def listed(reader: FileReader, list_file: str) -> tuple[int, ...]:
    """The numbers in a file such as ``cgroup.procs``; none where the group is gone.

    What is in no PID namespace of ours is 0 there.
    """
    try:
        numbers = [int(word) for word in reader.read(list_file).split()]
    except (OSError, ValueError):
        return ()
    return tuple(dict.fromkeys(numbers))


@contextmanager
def held(files: KernelFiles, proc_root: str, process: Process) -> Iterator[OpenDirectory]:
    """Its directory in /proc: what is done through it is done to this process, or fails.

    What can only be done by number is done to it if afterwards it ``is_there``.

    Raises:
        ProcessLookupError: it has ended.
        OSError: its directory cannot be read.
    """
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(files.held(f"{proc_root}/{process.pid}"))
            verify(process, directory.read(STAT))
        except FileNotFoundError:
            raise ProcessLookupError(errno.ESRCH, "has ended") from None
        yield directory


def is_there(directory: OpenDirectory) -> bool:
    """True if the process of a pidfd still runs: its PID cannot have been reused."""
    try:
        directory.read(STAT)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return True
