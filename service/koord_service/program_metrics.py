"""Metrics that every program serves beside its own: what it is, and what it takes of the machine.

Names are those of Prometheus' client libraries. That of Python would cost the device daemon more
memory than all the rest of it, so the text is written here, for all programs alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from koord_service.build_info import build_info

_PROCESS = Path("/proc/self")
_LIMIT = "Max open files"
_START_TIME = 19
"""Index of field 22 of /proc/self/stat, ``starttime``, after the name, which may have blanks."""


def program_metrics(program: str) -> str:
    """The metrics of this process in Prometheus' text format; ``program`` is its command."""
    return "".join(_lines(program))


def _lines(program: str) -> Iterator[str]:
    yield from _metric("pykoord_build_info", "gauge", "The build that runs; always 1.")
    labels = {"program": program, **build_info().labels()}
    written = ",".join(f'{name}="{value}"' for name, value in labels.items())
    yield f"pykoord_build_info{{{written}}} 1\n"
    for name, kind, about, value in (
        ("cpu_seconds_total", "counter", "CPU time of this process.", _cpu_seconds()),
        ("start_time_seconds", "gauge", "When it started, as Unix time.", _start_time()),
        *_memory(),
        ("open_fds", "gauge", "Open file descriptors.", _open_descriptors()),
        ("max_fds", "gauge", "Limit of file descriptors.", _most_descriptors()),
    ):
        yield from _metric(f"process_{name}", kind, about)
        yield f"process_{name} {value}\n"


def _metric(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def _cpu_seconds() -> float:
    return round(time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID), 3)


@cache
def _start_time() -> float:
    """Compute when the kernel began this process; the clock of the machine may be set later."""
    fields = (_PROCESS / "stat").read_text().rpartition(") ")[2].split()
    since_boot = int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    return round(time.time() - age, 2)


def _memory() -> Iterator[tuple[str, str, str, int]]:
    pages = (_PROCESS / "statm").read_text().split()
    for name, about, count in (
        ("virtual", "Address space.", pages[0]),
        ("resident", "Memory in use.", pages[1]),
    ):
        size = int(count) * os.sysconf("SC_PAGE_SIZE")
        yield f"{name}_memory_bytes", "gauge", about, size


def _open_descriptors() -> int:
    """Count them, without the one that this takes."""
    return sum(1 for _ in (_PROCESS / "fd").iterdir()) - 1


def _most_descriptors() -> float:
    """The soft limit, read from a file: a filter of system calls may forbid to ask for limits."""
    limits = (_PROCESS / "limits").read_text()
    soft = next(line for line in limits.splitlines() if line.startswith(_LIMIT)).split()[3]
    return float("inf") if soft == "unlimited" else int(soft)
