"""What the process keeps of memory that it does not need."""

from __future__ import annotations

import contextlib
import ctypes
import gc

_M_ARENA_MAX = -8
"""glibc's number for it (malloc.h)."""


def settle() -> None:
    """Give back what starting up needed, and spare the collector what stays."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def few_arenas(number: int = 2) -> None:
    """Let threads share so many heaps: each has room of its own that is never given back.

    To be called before there are threads. Without glibc it does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, number)
