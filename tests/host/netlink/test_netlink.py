"""Delays as the kernel here gives them, beside /proc and pyroute2; and layouts of other kernels."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from koord_host.netlink import messages, taskstats
from koord_host.netlink.taskstats import ProcessDelays
from koord_host.netlink.tcp_diag import Connection
from koord_host.netlink_sockets import TaskStats, TCPConnections


def stats(version: int, size: int, at: dict[int, int]) -> messages.NetlinkAnswer:
    """An answer of a kernel, with numbers at places of ``struct taskstats``."""
    body = bytearray(size)
    struct.pack_into("=H", body, 0, version)
    for place, value in at.items():
        struct.pack_into("=Q", body, place, value)
    group = messages.attribute(2, b"\7\0\0\0") + messages.attribute(3, bytes(body))
    return messages.NetlinkAnswer(7, memoryview(bytes(4) + messages.attribute(5, group)))


@pytest.mark.parametrize(
    ("version", "size", "at", "expected"),
    [
        (8, 328, {24: 1, 32: 2, 40: 3, 72: 4, 320: 5}, ProcessDelays(4, 1, 3, 2, 5, waits=2)),
        (
            13,
            416,
            {24: 1, 48: 1, 56: 9, 72: 4, 320: 5, 336: 6, 360: 7, 400: 3},
            ProcessDelays(4, 1, 0, 0, 5, 7, 9, 6, 4),
        ),
        (16, 560, {24: 1, 72: 4, 320: 5, 416: 99}, ProcessDelays(4, 1, 0, 0, 5)),
        # pyroute2's layout of version 15.
        (
            15,
            560,
            {24: 1, 48: 2, 56: 3, 88: 9, 120: 4, 368: 5, 400: 6, 440: 7, 496: 1},
            ProcessDelays(4, 1, 3, 2, 5, 7, 9, 6, 3),
        ),
    ],
)
def test_layouts(version: int, size: int, at: dict[int, int], expected: ProcessDelays) -> None:
    assert taskstats.process_delays(stats(version, size, at)) == expected


@pytest.mark.parametrize("length", [0, 15, 999])
def test_a_message_whose_length_does_not_fit_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="netlink message"):
        list(messages.answers(struct.pack("=IHHII", length, 20, 0, 1, 0)))


@pytest.fixture
def counters() -> TaskStats:
    try:
        TaskStats().read([])
    except OSError as error:
        pytest.skip(f"taskstats cannot be used here: {error}")
    return TaskStats()


def test_a_process_is_counted_with_threads_that_have_ended(counters: TaskStats) -> None:
    before = counters.read([os.getpid()])[os.getpid()]
    thread = threading.Thread(target=lambda: sum(range(3_000_000)))
    thread.start()
    thread.join()
    after = counters.read([os.getpid()])[os.getpid()]
    own, _, _ = Path("/proc/self/schedstat").read_text().split()
    assert after.cpu > int(own), "/proc/PID/schedstat is the first thread's alone"
    assert after.grown(before).cpu > 10_000_000


def test_it_is_what_pyroute2_reads(counters: TaskStats) -> None:
    from pyroute2 import TaskStats as Peer

    with Peer() as peer:
        peer.bind()
        # Of a kernel thread that sleeps, so that it is the same at both times.
        answer = peer.get_pid_stat(2)[0]
    read = dict(dict(answer["attrs"])["TASKSTATS_TYPE_AGGR_PID"]["attrs"])["TASKSTATS_TYPE_STATS"]
    found = counters.read([2])[2]
    assert (found.cpu, found.sched_wait) == (read["cpu_run_virtual_total"], read["cpu_delay_total"])


def test_processes_that_do_not_run_are_left_out(counters: TaskStats) -> None:
    missing = 4_194_305  # above the largest number of a process
    many = [os.getpid(), missing] * 100
    assert list(counters.read(many)) == [os.getpid()]


# ---- connections

T = TypeVar("T")

NAMESPACE = "pykoord-netlink"
NEAR, FAR = "10.123.45.1", "10.123.45.2"
CLIENT = """
import socket, sys
made = socket.create_connection((sys.argv[1], int(sys.argv[2])))
made.sendall(b"x" * 1000)
sys.stdin.read()
"""


@pytest.fixture
def namespace() -> Iterator[None]:
    """A network namespace, joined to ours by a pair of interfaces; needs root."""
    commands = (
        f"ip netns add {NAMESPACE}",
        f"ip link add pykoord-nl0 type veth peer name pykoord-nl1 netns {NAMESPACE}",
        f"ip addr add {NEAR}/24 dev pykoord-nl0",
        "ip link set pykoord-nl0 up",
        f"ip -n {NAMESPACE} addr add {FAR}/24 dev pykoord-nl1",
        f"ip -n {NAMESPACE} link set pykoord-nl1 up",
    )
    try:
        for command in commands:
            subprocess.run(command.split(), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        subprocess.run(["ip", "netns", "del", NAMESPACE], capture_output=True, check=False)
        pytest.skip(f"no network namespaces here: {error}")
    yield
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def read(process: int, most: int) -> tuple[list[Connection], bool]:
    """Read all, in a thread of its own."""
    return _in_thread(lambda: TCPConnections().read(process, most))


def _in_thread(read: Callable[[], T]) -> T:
    """Read in a thread, which is in this namespace again afterwards."""
    own, found = os.readlink("/proc/self/ns/net"), []

    def look() -> None:
        found.append(read())
        assert os.readlink("/proc/thread-self/ns/net") == own

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


def test_connections_of_another_namespace(namespace: None) -> None:
    with socket.create_server((NEAR, 0)) as server:
        words = ["ip", "netns", "exec", NAMESPACE, sys.executable, "-c", CLIENT]
        port = str(server.getsockname()[1])
        with subprocess.Popen([*words, NEAR, port], stdin=subprocess.PIPE) as client:
            made, _ = server.accept()
            with made:
                assert made.recv(1000, socket.MSG_WAITALL)
                made.sendall(b"y")
                seen = [read(client.pid, 10), read(client.pid, 0), read(os.getpid(), 10**6)]
                peer = _by_pyroute2(made)
                # Again, one by one: one of them has ended.
                known = [seen[0][0][0], seen[0][0][0]._replace(name=b"\2" + bytes(48))]
                again = _in_thread(lambda: TCPConnections().read_again(client.pid, known * 40))
            client.communicate()
    ([found], complete), (none, rest), (ours, _) = seen
    assert (complete, none, rest) == (True, [], False)
    assert (found.segments, found.retransmits) == (1, 0)
    assert 0 < found.rtt < 10**6
    assert again == [found] * 40
    # The other end is in this namespace, where pyroute2 reads it too.
    figures = peer["tcpi_rtt"], peer["tcpi_total_retrans"], peer["tcpi_data_segs_out"]
    assert figures in [(each.rtt, each.retransmits, each.segments) for each in ours]
    assert peer["tcpi_data_segs_out"] == 1
    with pytest.raises(FileNotFoundError):
        TCPConnections().read(client.pid, 10)


def _by_pyroute2(made: socket.socket) -> dict[str, int]:
    from pyroute2 import DiagSocket

    with DiagSocket() as peer:
        peer.bind()
        found = peer.get_sock_stats(family=socket.AF_INET, states=2, extensions=2)
    ends = made.getsockname()[1], made.getpeername()[1]
    [one] = [each for each in found if (each["idiag_sport"], each["idiag_dport"]) == ends]
    return dict(dict(one["attrs"])["INET_DIAG_INFO"])
