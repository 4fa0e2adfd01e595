"""Clients that come in crowds, or do not speak HTTP/2: they get in, and nothing of them stays."""

from __future__ import annotations

import contextlib
import errno
import random
import signal
import socket
import threading
from collections.abc import Iterator

from tests.integration.conftest import assert_sound
from tests.support.cri import batch_pod_config, remove_pod, run_pod
from tests.support.frames import PREFACE, frame
from tests.support.processes import PATIENCE
from tests.support.proxy import Proxy

CROWD = 500
ROUNDS = 20
AT_ONCE = 60
MAY_GROW = 4.0
"""Megabytes. Before it was bounded, twenty rounds took 40."""

DATA, HEADERS, SETTINGS, CONTINUATION = 0, 1, 4, 9
END_HEADERS = 4


@contextlib.contextmanager
def _stopped(proxy: Proxy) -> Iterator[None]:
    proxy.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        proxy.signal(signal.SIGCONT)


def test_a_crowd_gets_in(proxy):
    """The proxy accepts nobody meanwhile, so that only the kernel's queue counts."""
    with contextlib.ExitStack() as clients:
        with _stopped(proxy):
            codes = []
            for _ in range(CROWD):
                client = clients.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                codes.append(client.connect_ex(str(proxy.address)))
            assert codes.count(errno.EAGAIN) == 0
            assert codes.count(0) == CROWD
        proxy.wait_until(lambda: proxy.healthz()["connections"] == CROWD, "not all are in")
        with proxy.cri() as cri:
            remove_pod(cri, run_pod(cri, batch_pod_config()))
    proxy.wait_until(lambda: proxy.healthz()["connections"] == 0, "keeps connections")


def _hostile(kind: int, chance: random.Random) -> bytes:
    start = PREFACE + frame(SETTINGS, 0, 0, b"")
    noise = chance.randbytes(16_000)
    match kind % 5:
        case 0:
            return chance.randbytes(50_000)
        case 1:
            return start + b"".join(frame(DATA, 0, 2 * n + 1, noise) for n in range(6))
        case 2:
            return start + b"\x01\x00\x00\x00\x00\x00\x00\x00\x01"
        case 3:
            parts = [frame(CONTINUATION, 0, 1, noise) for _ in range(20)]
            return start + frame(HEADERS, 0, 1, noise) + b"".join(parts)
        case _:
            return start + frame(HEADERS, END_HEADERS, 1, b"\x82\x84" + noise[:200])


def _attack(proxy: Proxy, seed: int, crowd: threading.Barrier) -> None:
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.settimeout(1)
        client.connect(str(proxy.address))
        with contextlib.suppress(OSError):
            client.sendall(_hostile(seed, random.Random(seed)))
        # All of them are there at once.
        crowd.wait(PATIENCE)
        while client.recv(1 << 16):
            pass


def test_nothing_of_hostile_clients_stays(proxy):
    with proxy.cri() as cri:
        remove_pod(cri, run_pod(cri, batch_pod_config()))
    before = proxy.resident()
    together = threading.Barrier(AT_ONCE)
    for turn in range(ROUNDS):
        crowd = [
            threading.Thread(target=_attack, args=(proxy, AT_ONCE * turn + number, together))
            for number in range(AT_ONCE)
        ]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
    proxy.wait_until(lambda: proxy.healthz()["connections"] == 0, "keeps connections")
    proxy.wait_until(lambda: proxy.resident() - before <= MAY_GROW, "keeps memory")
    # What can be caused at will is reported now and then, and counted: with the next one, once the
    # last line is ten seconds old.
    reported = lambda: proxy.events("connection closed")  # noqa: E731

    def are_counted() -> bool:
        if not any("times" in one for one in reported()):
            _attack(proxy, 0, threading.Barrier(1))
        return any("times" in one for one in reported())

    proxy.wait_until(are_counted, "does not count them")
    assert len(reported()) < sum(one.get("times", 1) for one in reported()) / 4
    with proxy.cri() as cri:
        remove_pod(cri, run_pod(cri, batch_pod_config()))
    assert_sound(proxy)
