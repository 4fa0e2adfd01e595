"""Requests at times set beforehand, whatever became of those before: an open loop.

A request's latency is from when it was due to when its answer was ready, by the server's
clock, which is this machine's too. So neither a slow server keeps requests from being made
(coordinated omission), nor does it count how soon this program wakes up for the answer. How
late it sent counts, and is reported beside: it runs before everything else (SCHED_FIFO).
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_DRAIN_SECONDS = 1.5
_PRIORITY = 50


class Answers(NamedTuple):
    """Milliseconds of latency of each request that counts, in order of size.

    ``lost`` were not answered in time; they count as long as was waited for them. ``late`` is
    the p99 of how late requests were sent, in milliseconds.
    """

    latencies: Sequence[float]
    lost: int
    late: float

    def percentile(self, share: float) -> float:
        return percentile(self.latencies, share)


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Seconds from the start at which requests are due: a Poisson process."""
    chance, at, found = random.Random(seed), 0.0, []
    while (at := at + chance.expovariate(rate)) < seconds:
        found.append(at)
    return found


def ask(port: int, due: Sequence[float], settle: float) -> Answers:
    """Make the requests; those due within ``settle`` seconds do not count."""
    ready: dict[int, int] = {}
    with _socket(port) as sock, before_everything_else():
        start = time.monotonic_ns() + 50_000_000
        times = [start + int(at * 1e9) for at in due]
        sent = []
        for number, at in enumerate(times):
            _take(sock, ready, until=at)
            sock.send(number.to_bytes(8, "little"))
            sent.append(time.monotonic_ns())
        end = times[-1] + int(_DRAIN_SECONDS * 1e9)
        while len(ready) < len(times) and time.monotonic_ns() < end:
            _take(sock, ready, until=min(end, time.monotonic_ns() + 20_000_000))
    counted = [number for number, at in enumerate(due) if at >= settle]
    lost = [number for number in counted if number not in ready]
    latencies = sorted((ready.get(number, end) - times[number]) / 1e6 for number in counted)
    lates = sorted((sent[number] - times[number]) / 1e6 for number in counted)
    return Answers(latencies, len(lost), percentile(lates, 0.99))


def answers(port: int) -> bool:
    """True if the server answers."""
    with _socket(port) as sock:
        sock.settimeout(0.5)
        with contextlib.suppress(OSError):
            sock.send(bytes(8))
            return bool(sock.recv(64))
    return False


def _socket(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.connect(("127.0.0.1", port))
    return sock


def _take(sock: socket.socket, ready: dict[int, int], until: int) -> None:
    """Take in answers until a time."""
    while (left := until - time.monotonic_ns()) > 0:
        if not select.select((sock,), (), (), left / 1e9)[0]:
            return
        answer = sock.recv(64)
        ready[int.from_bytes(answer[:8], "little")] = int.from_bytes(answer[8:16], "little")


@contextlib.contextmanager
def before_everything_else() -> Iterator[None]:
    """This program runs whenever it can (SCHED_FIFO), and collects no garbage."""
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        os.sched_setscheduler(0, before, os.sched_param(0))
