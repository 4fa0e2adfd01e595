"""A server on the node: every 20 ms it computes, in threads beside that it writes and sends.

``python bench/interference_load.py GROUP PEER FILE``: joins a cgroup first. It needs nothing of
pykoord, so that it starts at once.
"""

from __future__ import annotations

import itertools
import mmap
import os
import socket
import sys
import threading
import time
from pathlib import Path

_PAGE = 4096


def compute(end: float) -> None:
    """Use half a CPU, a little at a time, as a server under load does."""
    while True:
        until = time.monotonic() + end
        while time.monotonic() < until:
            pass
        time.sleep(end)


def write(path: Path) -> None:
    """Bring a page to the disk ten times a second, as a database does."""
    path.write_bytes(bytes(64 * _PAGE))
    page = mmap.mmap(-1, _PAGE)
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    for place in itertools.cycle(range(64)):
        os.pwrite(file, page, place * _PAGE)
        time.sleep(0.1)


def read(path: Path) -> None:
    """Go through a file that is in the page cache, and take and give back memory."""
    while True:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(1 << 20):
                held = bytearray(chunk)
            del held
        time.sleep(0.5)


def send(peer: str) -> None:
    """Send a kilobyte a hundred times a second."""
    while True:
        try:
            with socket.create_connection((peer, 9000), timeout=30) as made:
                while True:
                    made.sendall(b"x" * 1000)
                    time.sleep(0.01)
        except OSError:
            time.sleep(0.2)  # the network is still being made


def main() -> None:
    group, peer, directory = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    (group / "cgroup.procs").write_text(str(os.getpid()))
    cached = directory / "cached"
    cached.write_bytes(os.urandom(1 << 20) * 60)
    for work in (
        lambda: write(directory / "written"),
        lambda: read(cached),
        lambda: send(peer),
    ):
        threading.Thread(target=work, daemon=True).start()
    compute(0.01)


if __name__ == "__main__":
    main()
