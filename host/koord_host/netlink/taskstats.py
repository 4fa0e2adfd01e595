"""Delays of processes: taskstats, the kernel's delay accounting (Documentation/accounting). No IO.

Asked by the id of a thread group, the kernel sums over its threads, those that have ended too. How
long they ran and waited for a CPU it always counts (as in /proc/PID/schedstat); the other
delays with ``kernel.task_delayacct`` on, of tasks that started after that.
"""

from __future__ import annotations

import struct
import sys
from operator import add
from typing import NamedTuple

from koord_host.netlink.messages import (
    NetlinkAnswer,
    attribute,
    attributes,
    generic_attributes,
    generic_request,
)

FAMILY = "TASKSTATS"

_GET = 1
_BY_GROUP = 2
_STATS = 3
_OF_GROUP = 5

_PID = struct.Struct("=I")
_LAYOUT = struct.Struct("=H 22x Q 2Q 2Q 8x Q 232x 2Q 2Q 8x 2Q 32x Q 8x")
"""version; cpu_delay_total; blkio and swapin, count and total; cpu_run_virtual_total; freepages,
thrashing and compact, count and total; wpcopy_count. Older versions are shorter."""
_LAYOUT_15 = struct.Struct("=H 22x Q 16x 2Q 16x 2Q 24x Q 232x 2Q 16x 2Q 16x 8x 2Q 16x 32x Q 24x")
"""That of Linux 6.14 to 6.16, which had the longest and shortest delay after each total."""


class ProcessDelays(NamedTuple):
    """A process since its start; in nanoseconds, except ``disk_waits``.

    It ran for ``cpu``, and waited for a CPU (``sched_wait``), for a disk (``disk_wait``, in so
    many ``disk_waits``), and for memory: reclaiming it, compacting it, reading it back from swap,
    or reading pages back that it used shortly before (thrashing). ``waits`` counts all of these
    but those for CPUs, copies of pages on write too: 0 where the kernel does not account this
    process.
    """

    cpu: int = 0
    sched_wait: int = 0
    disk_wait: int = 0
    disk_waits: int = 0
    reclaim: int = 0
    compaction: int = 0
    swapin: int = 0
    thrashing: int = 0
    waits: int = 0

    def grown(self, before: ProcessDelays) -> ProcessDelays:
        """Return what was added since; nothing is less than it was."""
        return ProcessDelays(*(max(now - then, 0) for now, then in zip(self, before, strict=True)))

    def plus(self, other: ProcessDelays) -> ProcessDelays:
        """The sum."""
        return ProcessDelays(*map(add, self, other))

    @property
    def memory_wait(self) -> int:
        """Waits for memory; reading back a swapped page counts as both of the last."""
        return self.reclaim + self.compaction + max(self.swapin, self.thrashing)


def delays_request(family: int, process: int) -> bytes:
    """Ask for the delays of a process; its number comes back as the answer's sequence."""
    return generic_request(family, _GET, attribute(_BY_GROUP, _PID.pack(process)), process)


def process_delays(answer: NetlinkAnswer) -> ProcessDelays | None:
    """The delays in an answer; ``None`` where it has none."""
    for kind, group in generic_attributes(answer):
        if kind == _OF_GROUP:
            for inner, stats in attributes(group):
                if inner == _STATS:
                    return _delays(bytes(stats))
    return None


def _delays(stats: bytes) -> ProcessDelays | None:
    if len(stats) < _PID.size:
        return None
    layout = _LAYOUT_15 if int.from_bytes(stats[:2], sys.byteorder) == 15 else _LAYOUT
    values = layout.unpack_from(stats.ljust(layout.size, b"\0"))
    (_, sched_wait, disk_waits, disk_wait, swapins, swapin, cpu) = values[:7]
    (reclaims, reclaim, thrashes, thrashing, compactions, compaction, copies) = values[7:]
    return ProcessDelays(
        cpu,
        sched_wait,
        disk_wait,
        disk_waits,
        reclaim,
        compaction,
        swapin,
        thrashing,
        disk_waits + swapins + reclaims + thrashes + compactions + copies,
    )
