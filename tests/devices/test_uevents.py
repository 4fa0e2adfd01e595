"""What is heard of the kernel: the real socket, and what comes through it."""

from __future__ import annotations

import errno
import socket
import threading
from queue import SimpleQueue

from koord_devices.prober import Event, Wake
from koord_devices.uevents import UeventListener

GPU = b"add@/x\0ACTION=add\0SUBSYSTEM=pci\0PCI_CLASS=30200\0PCI_SLOT_NAME=0000:3b:00.0\0"


class Socket:
    """Gives these messages with their senders' ports; then its reader is stopped."""

    def __init__(self, stop: socket.socket, *given: tuple[bytes, int] | int) -> None:
        self.given = list(given)
        self.stop = stop
        # Always readable.
        self.end, self.other = socket.socketpair()
        self.other.send(b"x")

    def fileno(self) -> int:
        return self.end.fileno()

    def recvfrom(self, size: int) -> tuple[bytes, tuple[int, int]]:
        one = self.given.pop(0)
        if not self.given:
            self.stop.close()
        if isinstance(one, int):
            raise OSError(one, "x")
        return one[0], (one[1], 1)

    def bind(self, address: tuple[int, int]) -> None:
        assert address == (0, 1)

    def close(self) -> None:
        self.end.close()
        self.other.close()


def heard(*given: tuple[bytes, int] | int) -> list[Event]:
    events: SimpleQueue[Event] = SimpleQueue()
    listener = UeventListener(events)
    listener._socket.close()
    listener._socket = Socket(listener._stop, *given)  # type: ignore[assignment]
    listener.start()
    listener._thread.join(10)
    listener.close()
    return [events.get() for _ in range(events.qsize())]


def test_only_the_kernel_wakes_and_lost_messages_do() -> None:
    gpu, lost = Wake("pci 0000:3b:00.0 add"), Wake("lost messages of the kernel")
    assert heard((GPU, 0), (GPU, 4711), (b"add@/y\0SUBSYSTEM=block\0", 0)) == [gpu]
    assert heard(errno.ENOBUFS, (GPU, 0)) == [lost, gpu]


def test_the_real_socket_can_be_had_and_given_back() -> None:
    listener = UeventListener(SimpleQueue())
    listener.start()
    assert "uevents" in {one.name for one in threading.enumerate()}
    listener.close()
    assert "uevents" not in {one.name for one in threading.enumerate()}
