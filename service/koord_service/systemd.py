"""systemd's protocols for services: readiness, socket activation and watchdog.

sd_notify(3), sd_listen_fds(3) and sd_watchdog_enabled(3), without libsystemd. All
of it does nothing in a program that systemd did not start.
"""

from __future__ import annotations

import os
import socket

_FIRST_DESCRIPTOR = 3
# Longer than systemd ever needs, and short enough not to miss a watchdog beat.
_SEND_TIMEOUT_SECONDS = 1.0


def notify(state: str) -> None:
    r"""Tell systemd, e.g. ``"READY=1\nSTATUS=relaying"``; never raises."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    name = os.fsencode(address)
    if name.startswith(b"@"):
        name = b"\0" + name[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_TIMEOUT_SECONDS)
            sender.connect(name)
            sender.send(state.encode("utf-8", "replace"))
    except OSError:
        # systemd does not listen; the work goes on.
        return


def listen_sockets() -> list[socket.socket]:
    """The listening sockets handed over at start, non-blocking, in the unit's order.

    They are handed over once: the variables are emptied, so that a child does not
    take them for its own.

    Raises:
        OSError: a descriptor handed over is not a socket.
    """
    process = _number("LISTEN_PID")
    count = _number("LISTEN_FDS")
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    if process != os.getpid() or count is None:
        return []
    sockets = []
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + count):
        os.set_inheritable(descriptor, False)
        handed = socket.socket(fileno=descriptor)
        handed.setblocking(False)
        sockets.append(handed)
    return sockets


def watchdog_interval() -> float | None:
    """Seconds between two ``WATCHDOG=1``: half of what the unit allows; None without one."""
    microseconds = _number("WATCHDOG_USEC")
    process = _number("WATCHDOG_PID")
    if not microseconds or process not in (None, os.getpid()):
        return None
    return microseconds / 2 / 1_000_000


async def feed_watchdog() -> None:
    """Show systemd that the event loop turns, as often as the unit wants; forever if it does."""
    import asyncio  # not all programs have an event loop

    interval = watchdog_interval()
    while interval:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval)


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() else None
