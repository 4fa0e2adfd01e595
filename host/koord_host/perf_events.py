"""The processors' event counters of one cgroup: perf_event_open(2), read only.

Python has no call for it, and the kept libraries wrap whole profilers; it is one system
call, two ioctls and a read. Format of the attributes: include/uapi/linux/perf_event.h,
first published size (64 bytes), which every kernel takes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import resource
import struct
from collections.abc import Sequence

_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "loongarch64": 241, "s390x": 331}

_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
"""type, size, config, sample_period, sample_type, read_format, flags, wakeup, bp_type, bp_addr."""
_TIMES_AND_GROUP = 0b1011
"""PERF_FORMAT_TOTAL_TIME_ENABLED, _RUNNING and _GROUP: nr, enabled, running, values."""
_READING = struct.Struct("=5Q")
_DISABLED = 1
_PID_CGROUP = 4
_CLOEXEC = 8
_IOC_ENABLE = 0x2400

Event = tuple[int, int]
"""Type and configuration of a counter."""

CYCLES_AND_INSTRUCTIONS: tuple[Event, Event] = ((0, 0), (0, 1))
"""PERF_TYPE_HARDWARE: PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS."""

_MOST_DESCRIPTORS = 8192
"""Upper bound of the budget: opening and closing each costs the kernel some microseconds."""


def descriptor_budget() -> int:
    """Return the limit of descriptors for counters: half of RLIMIT_NOFILE, 8192 at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else min(soft // 2, _MOST_DESCRIPTORS)
    )


class PerfEvents:
    """Source of windows on the counters; ``budget`` limits their descriptors.

    ``events`` are counted in one group, always together or not at all, so that their
    ratio is exact.
    """

    def __init__(
        self, budget: int | None = None, events: tuple[Event, Event] = CYCLES_AND_INSTRUCTIONS
    ) -> None:
        self.budget = descriptor_budget() if budget is None else budget
        self._events = events
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = _SYSCALL.get(platform.machine(), -1)

    def start(self, directory: str, cpus: Sequence[int]) -> CounterWindow:
        """Start to count what the tasks of a cgroup do on these CPUs.

        ``directory`` is in the unified hierarchy, or in that of v1's perf_event.

        Raises:
            OSError: with a filename, the directory cannot be opened; without one, the
                kernel has no such counters (ENOENT, EOPNOTSUPP, ENODEV), refuses (EACCES,
                EPERM), has none left (EMFILE, EBUSY) or no such call (ENOSYS).
        """
        group = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        leaders: list[int] = []
        others: list[int] = []
        try:
            for cpu in cpus:
                with contextlib.suppress(_OfflineError):
                    leaders.append(self._counter(group, cpu, self._events[0], -1, _DISABLED))
                    others.append(self._counter(group, cpu, self._events[1], leaders[-1], 0))
            if not leaders:
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
            for leader in leaders:
                fcntl.ioctl(leader, _IOC_ENABLE, 0)
        except OSError:
            _close([*others, *leaders])
            raise
        finally:
            os.close(group)
        return CounterWindow(leaders, others)

    def _counter(self, group: int, cpu: int, event: Event, leader: int, flags: int) -> int:
        kind, config = event
        size = _ATTRIBUTES.size
        attributes = _ATTRIBUTES.pack(kind, size, config, 0, 0, _TIMES_AND_GROUP, flags, 0, 0, 0)
        found: int = self._libc.syscall(
            ctypes.c_long(self._number),
            ctypes.c_char_p(attributes),
            ctypes.c_int(group),
            ctypes.c_int(cpu),
            ctypes.c_int(leader),
            ctypes.c_ulong(_PID_CGROUP | _CLOEXEC),
        )
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number == errno.ENODEV:
            raise _OfflineError(number, os.strerror(number))
        raise OSError(number, os.strerror(number))


class _OfflineError(OSError):
    """The CPU went offline since somebody listed it."""


class CounterWindow:
    """Counters of one cgroup on all CPUs, counting since they were opened."""

    def __init__(self, leaders: list[int], others: list[int]) -> None:
        self._leaders = leaders
        self._others = others

    def close(self) -> tuple[float, float]:
        """The two events' counts since, and stop counting.

        Where more events were requested than the processor has counters, they take
        turns; each CPU's counts are scaled by the time they were enabled over the time
        they really counted.

        Raises:
            OSError: EBUSY, others held the counters all the time.
        """
        try:
            readings = [data for leader in self._leaders if len(data := os.read(leader, 40)) == 40]
        finally:
            _close([*self._others, *self._leaders])
            self._leaders, self._others = [], []
        return _sum(readings)


def _sum(readings: list[bytes]) -> tuple[float, float]:
    """All CPUs together; one that is offline meanwhile has given no reading."""
    first = second = 0.0
    starved = counted = False
    for reading in readings:
        _, enabled, running, cycles, other = _READING.unpack(reading)
        if enabled and not running:
            starved = True
            continue
        # Some kernels have counts of the root group, but no times.
        scale = enabled / running if running else 1.0
        first, second = first + cycles * scale, second + other * scale
        counted = counted or running > 0
    if starved and not counted:
        raise OSError(errno.EBUSY, "the counters are held by others (NMI watchdog, perf)")
    return first, second


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
