"""Loads of bench/memory_node.py, each one process: a job, a server, and a burst.

Run by itself, with nothing but the standard library: ``memory_load.py KIND GROUP FILE …`` joins
the cgroup (its directory), and appends what it measures to the file, a line each.
"""

import mmap
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

MIB = 1 << 20
PAGE = 4096
BLOCK = 16 << 10


def job(out: TextIO, size: int, hot: int, cache: str) -> None:
    """Fill ``size`` MiB, half of it random, read a file, and use ``hot`` MiB over and over."""
    memory = mmap.mmap(-1, size * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, size * MIB, MIB):
        memory[place : place + MIB // 2] = os.urandom(MIB // 2)
        memory[place + MIB // 2 : place + MIB] = b"x" * (MIB // 2)
    with open(cache, "rb") as file:
        while file.read(MIB):
            pass
    out.write("filled\n")
    rounds, begin = 0, time.monotonic()
    while True:
        for place in range(0, hot * MIB, MIB):
            memory[place : place + MIB : PAGE]
        rounds += 1
        out.write(f"{time.monotonic() - begin:.2f} {rounds}\n")
        time.sleep(1)


def server(out: TextIO, size: int, rate: float, cache: str) -> None:
    """Answer ``rate`` requests a second, each of 64 pages of ``size`` MiB and a block of a file."""
    memory = mmap.mmap(-1, size * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, size * MIB, MIB):
        memory[place : place + MIB] = os.urandom(MIB)
    rng = random.Random(1)
    blocks = os.path.getsize(cache) // BLOCK
    due = time.monotonic()
    with open(cache, "rb") as file:
        while True:
            due += 1 / rate
            time.sleep(max(due - time.monotonic(), 0))
            for _ in range(64):
                memory[rng.randrange(size * MIB)]
            file.seek(rng.randrange(blocks) * BLOCK)
            file.read(BLOCK)
            # From when it was due: a request that waits for the one before is a slow one.
            out.write(f"{time.monotonic():.3f} {1000 * (time.monotonic() - due):.2f}\n")


def burst(out: TextIO, size: int, each: int) -> None:
    """Take memory as fast as it comes, in processes of ``each`` MiB, as executors do."""
    begin = time.monotonic()
    for count in range(size // each):
        done, filled = os.pipe()
        if os.fork() == 0:
            held = b"x" * (each * MIB)
            os.write(filled, held[:1])
            time.sleep(1000)
        os.close(filled)
        # Nothing where it was killed meanwhile.
        os.read(done, 1)
        os.close(done)
        out.write(f"{time.monotonic() - begin:.2f} {each * (count + 1)}\n")
    time.sleep(1000)


def reader(out: TextIO, rate: float, cache: str) -> None:
    """Read a file of ``rate`` MiB a second, from the beginning again at its end."""
    while True:
        with open(cache, "rb") as file:
            while file.read(MIB):
                time.sleep(1 / rate)


LOADS: dict[str, Callable[..., Any]] = {
    "job": job,
    "server": server,
    "burst": burst,
    "reader": reader,
}


def main(kind: str, group: str, path: str, *rest: str) -> None:
    with open(f"{group}/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
    # As the kubelet has it: of best-effort pods, and of others that request no memory.
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000" if "besteffort" in group else "999")
    arguments = [int(word) if word.isdecimal() else word for word in rest]
    with open(path, "a", buffering=1) as out:
        LOADS[kind](out, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
