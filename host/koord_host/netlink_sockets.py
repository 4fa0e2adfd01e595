"""Netlink's sockets that measure: delays of processes, TCP connections. Read only.

The kernel answers within the call that sends the question, so nothing here waits for long.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import time
from collections.abc import Iterator, Sequence

from koord_host.netlink import taskstats, tcp_diag
from koord_host.netlink.messages import NetlinkAnswer, answers, family_number, family_request
from koord_host.netlink.taskstats import ProcessDelays
from koord_host.netlink.tcp_diag import Connection

_GENERIC = 16
_SOCK_DIAG = 4
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_BATCH = 64
"""Questions in one send: their answers fit into the default receive buffer."""
_DATAGRAM = 1 << 16
_TIMEOUT_SECONDS = 1.0


class TaskStats:
    """Delays of processes; implements ``TaskDelayCounters``."""

    def __init__(self) -> None:
        self._family = 0

    def read(self, processes: Sequence[int]) -> dict[int, ProcessDelays]:
        """The delays of those that still run.

        Raises:
            OSError: the kernel has no taskstats (ENOENT) or refuses (EPERM: it takes
                CAP_NET_ADMIN, and the host's PID and network namespaces).
        """
        found = {}
        with _netlink(_GENERIC) as asked:
            self._family = self._family or _family(asked, taskstats.FAMILY)
            for start in range(0, len(processes), _BATCH):
                batch = processes[start : start + _BATCH]
                asked.send(b"".join(taskstats.delays_request(self._family, pid) for pid in batch))
                for answer in _next(asked, len(batch)):
                    if answer.error and answer.error != errno.ESRCH:
                        raise OSError(answer.error, os.strerror(answer.error))
                    delays = None if answer.error else taskstats.process_delays(answer)
                    if delays is not None:
                        found[answer.sequence] = delays
        return found


class TCPConnections:
    """TCP connections by network namespace; implements ``ConnectionTable``."""

    def __init__(self, proc_root: str = "/proc") -> None:
        self._proc_root = proc_root
        self._libc = ctypes.CDLL(None, use_errno=True)

    def namespace(self, process: int | None = None) -> int:
        """The network namespace of a process, or of this program, by its inode.

        Raises:
            OSError: it has ended, or the kernel refuses (CAP_SYS_PTRACE).
        """
        return os.stat(self._path(process or "self")).st_ino  # noqa: PTH116 - on the hot path

    def read(self, process: int, most: int) -> tuple[list[Connection], bool]:
        """Connections of a process's namespace, ``most`` at most; and whether these are all.

        The calling thread is in that namespace meanwhile: it must be a thread of the caller's own,
        and one that ends if this raises.

        Raises:
            OSError: the process has ended, or the kernel refuses (EPERM: entering a namespace
                takes CAP_SYS_ADMIN).
        """
        # A netlink socket belongs to the namespace in which it was opened.
        with self._entered(process):
            asked = _netlink(_SOCK_DIAG)
        found: list[Connection] = []
        with asked:
            asked.send(tcp_diag.dump_request())
            for answer in _dump(asked):
                connection = tcp_diag.connection(answer)
                if connection is not None:
                    if len(found) >= most:
                        return found, False
                    found.append(connection)
        return found, True

    def cpu_time(self) -> float:
        """Seconds of CPU that the calling thread has used, the kernel's work for it included."""
        return time.thread_time()

    def read_again(self, process: int, known: Sequence[Connection]) -> list[Connection]:
        """Those of some connections of a process's namespace that are there still.

        One costs some 8 µs; ``read`` goes through the table of the whole machine, which takes a
        millisecond where that has 262144 places. The calling thread is as for ``read``.

        Raises:
            OSError: as for ``read``.
        """
        with self._entered(process):
            asked = _netlink(_SOCK_DIAG)
        found: list[Connection] = []
        with asked:
            for start in range(0, len(known), _BATCH):
                batch = known[start : start + _BATCH]
                asked.send(b"".join(map(tcp_diag.connection_request, batch, range(len(batch)))))
                for answer in _next(asked, len(batch)):
                    if answer.error and answer.error != errno.ENOENT:
                        raise OSError(answer.error, os.strerror(answer.error))
                    one = None if answer.error else tcp_diag.connection(answer)
                    if one is not None:
                        found.append(one)
        return found

    @contextlib.contextmanager
    def _entered(self, process: int) -> Iterator[None]:
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            there = os.open(self._path(process), os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._enter(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                self._enter(own)
        finally:
            os.close(own)

    def _enter(self, namespace: int) -> None:
        # os.setns is there since Python 3.12.
        if self._libc.setns(namespace, _NEW_NETWORK):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def _path(self, process: int | str) -> str:
        return f"{self._proc_root}/{process}/ns/net"


def _dump(asked: socket.socket) -> Iterator[NetlinkAnswer]:
    """All answers until the last."""
    while True:
        for answer in answers(asked.recv(_DATAGRAM)):
            if answer.error:
                raise OSError(answer.error, os.strerror(answer.error))
            if answer.done:
                return
            yield answer


def _netlink(protocol: int) -> socket.socket:
    # A fresh one for each round: it holds no late answers.
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    opened.settimeout(_TIMEOUT_SECONDS)
    return opened


def _next(asked: socket.socket, count: int) -> Iterator[NetlinkAnswer]:
    """So many answers."""
    while count > 0:
        for answer in answers(asked.recv(_DATAGRAM)):
            count -= 1
            yield answer


def _family(asked: socket.socket, name: str) -> int:
    asked.send(family_request(name))
    for answer in _next(asked, 1):
        number = None if answer.error else family_number(answer)
        if number:
            return number
    raise FileNotFoundError(errno.ENOENT, f"the kernel has no {name}")
