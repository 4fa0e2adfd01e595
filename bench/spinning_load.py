"""Loads of bench/indicators_node.py: a service's workers, and jobs that never stop.

Run by itself, with nothing but the standard library: ``spinning_load.py KIND GROUP FILE COUNT …``
joins the cgroup (its directory) and starts so many processes.

They use CPU with ``pause`` instructions, after each of which QEMU's one thread goes on with the
next processor: so the emulated processors are busy side by side, as real ones are.
"""

import ctypes
import math
import mmap
import os
import random
import sys
import time
from collections.abc import Callable

_CODE = bytes.fromhex("4889f9 f390 48ffc9 75f9 c3")
"""mov rcx, rdi; again: pause; dec rcx; jnz again; ret"""
_PAUSES = 100
WORK, WAVE = 0.008, 40.0
"""Seconds of CPU of a request, on average, and seconds of a wave of load."""


def spinning() -> Callable[[int], None]:
    """A function that executes so many pauses."""
    rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory = mmap.mmap(-1, len(_CODE), prot=rights)
    memory.write(_CODE)
    # What refers to the memory must live as long as the function.
    held = ctypes.c_char.from_buffer(memory)
    code = ctypes.CFUNCTYPE(None, ctypes.c_long)(ctypes.addressof(held))

    def spin(count: int, _held: ctypes.c_char = held) -> None:
        code(count)

    return spin


def job(path: str, number: int) -> None:
    """Use a CPU, as long as there is one."""
    spin = spinning()
    while True:
        spin(1 << 20)


def service(path: str, number: int, load: float) -> None:
    """Answer requests that come by chance, for ``load`` of a CPU on average, in waves.

    A line for each: seconds of the monotonic clock, and milliseconds from when it was due.
    """
    spin, chance = spinning(), random.Random(number)
    due = time.monotonic()
    with open(f"{path}.{number}", "a", buffering=1) as out:
        while True:
            wave = 1 + 0.6 * math.sin(time.monotonic() / WAVE * math.tau)
            due += chance.expovariate(load * wave / WORK)
            time.sleep(max(due - time.monotonic(), 0))
            until = time.thread_time() + chance.expovariate(1 / WORK)
            while time.thread_time() < until:
                spin(_PAUSES)
            now = time.monotonic()
            out.write(f"{now:.3f} {1000 * (now - due):.2f}\n")
            # Who is far behind would only ever be later: a client gives up.
            due = max(due, now - 1.0)


LOADS: dict[str, Callable[..., None]] = {"job": job, "service": service}


def main(kind: str, group: str, path: str, count: str, *rest: str) -> None:
    with open(f"{group}/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
    for number in range(int(count)):
        if os.fork() == 0:
            LOADS[kind](path, number, *map(float, rest))
    os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
