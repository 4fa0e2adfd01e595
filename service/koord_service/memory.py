"""What the process keeps of memory that it does not need."""

from __future__ import annotations

import contextlib
import ctypes
import gc

_M_ARENA_MAX = -8
"""glibc's number for it (malloc.h)."""

_YOUNG, _MIDDLE, _NEVER = 10_000, 20, 1_000_000
"""Thresholds of the collector: allocations, and collections of the younger generation."""


def settle() -> None:
    """Give back what starting up needed, and spare the collector what stays."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def leave_the_old() -> None:
    """Let the collector look at what is young alone, until ``settle`` is called again.

    With a large cluster in memory, to look at all of it takes a tenth of a second, in which nobody
    is answered; and what is old is hardly ever garbage.
    """
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)


def few_arenas(number: int = 2) -> None:
    """Let threads share so many heaps: each has room of its own that is never given back.

    To be called before there are threads. Without glibc it does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, number)
