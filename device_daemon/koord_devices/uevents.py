"""Wakes the daemon when the kernel adds or removes a device, instead of at the next interval.

The kernel's messages need no udevd and no privileges, and reach a pod's own network namespace.
"""

from __future__ import annotations

import select
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
        # Closing a netlink socket does not wake whoever waits for it.
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="uevents", daemon=True)

    def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: the kernel refuses.
        """
        self._socket.bind((0, _KERNEL_GROUP))
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._stop.close()
        self._thread.join()
        self._socket.close()
        self._stopped.close()

    def _listen(self) -> None:
        while True:
            ready, _, _ = select.select([self._socket, self._stopped], [], [])
            if self._stopped in ready:
                return
            try:
                message, (port, _) = self._socket.recvfrom(_MOST)
            except OSError:
                # ENOBUFS: messages were lost, any of which may have been about a device.
                self._events.put(Wake("lost messages of the kernel"))
                continue
            what = "" if port else concerns_devices(message)  # only the kernel's port is 0
            if what:
                self._events.put(Wake(what))
