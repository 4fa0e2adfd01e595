from __future__ import annotations

import gc
import subprocess
import sys

from koord_service import memory

_PROGRAM = """
import ctypes, threading
from koord_service import memory
memory.limit_arenas(1)
def work():
    kept = [bytes(1000) for _ in range(10_000)]
threads = [threading.Thread(target=work) for _ in range(8)]
[one.start() for one in threads]; [one.join() for one in threads]
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""
_FAULTS = """
import resource
from koord_service import memory
memory.keep_freed()
def work():
    for _ in range(100):
        kept = [b"x" * (1 << 20) for _ in range(8)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_what_stays_is_left_to_no_collector() -> None:
    frozen = gc.get_freeze_count()
    kept = [[number] for number in range(1000)]
    memory.freeze_startup()
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_what_is_old_is_left_alone() -> None:
    before = gc.get_threshold()
    try:
        memory.collect_young_only()
        young, middle, old = gc.get_threshold()
        assert young * middle * old > 10**11, "so many allocations before all is looked at"
    finally:
        gc.set_threshold(*before)


def test_threads_share_heaps() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    assert ran.stdout.count("<heap nr=") == 1


def test_freed_memory_is_used_again() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 10_000, "pages that the kernel had to give: a new one has 4 KiB"
