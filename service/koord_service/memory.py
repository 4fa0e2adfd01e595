"""Returns memory that the process no longer needs, and keeps garbage collection short."""

from __future__ import annotations

import contextlib
import ctypes
import gc

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""The options' numbers in glibc's malloc.h."""

_KEPT_BYTES = 64 << 20

_YOUNG, _MIDDLE, _NEVER = 10_000, 20, 1_000_000
"""Thresholds of the collector: allocations, and collections of the younger generation."""


def freeze_startup() -> None:
    """Return what only startup needed, and exempt what stays from garbage collection."""
    gc.collect()
    gc.freeze()
    _trim()


def release_unused() -> None:
    """Return freed memory to the kernel; malloc would keep it. Takes some milliseconds."""
    gc.collect()
    _trim()


def _trim() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def collect_young_only() -> None:
    """Collect young objects only, until ``freeze_startup`` is called again.

    With a large cluster in memory a full collection takes a tenth of a second, in which nobody
    is answered, and old objects are hardly ever garbage.
    """
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)


def limit_arenas(number: int = 2) -> None:
    """Limit how many heaps threads allocate from: memory in a heap of its own rarely returns.

    Call it before there are threads. Without glibc it does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, number)


def keep_freed() -> None:
    """Keep up to 64 MiB that were freed, in place of returning them to the kernel.

    For programs that make large arrays for microseconds, thousands of times a second: their pages
    would come back as page faults, a third of the CPU. Without glibc it does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2)  # the most that glibc takes
