"""Wakes the daemon when the kernel adds or removes a device, instead of at the next interval.

The kernel's messages need no udevd and no privileges, and reach a pod's own network namespace.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from queue import SimpleQueue

from koord_devices.core.uevent import concerns_devices
from koord_devices.prober import Event, Wake

_NETLINK_KOBJECT_UEVENT = 15
_KERNEL_GROUP = 1
_MOST = 1 << 16


class UeventListener:
    """Listens in a thread of its own until it is closed."""

    def __init__(self, events: SimpleQueue[Event]) -> None:
        self._events = events
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_KOBJECT_UEVENT
        )

    def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: the kernel refuses.
        """
        self._socket.bind((0, _KERNEL_GROUP))
        threading.Thread(target=self._listen, name="uevents", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                message, (port, _) = self._socket.recvfrom(_MOST)
            except OSError as error:
                if self._socket.fileno() < 0 or error.errno not in (4, 105):
                    return
                # ENOBUFS: messages were lost, any of which may have been about a device.
                self._events.put(Wake("lost messages of the kernel"))
                continue
            what = "" if port else concerns_devices(message)  # only the kernel's port is 0
            if what:
                self._events.put(Wake(what))
