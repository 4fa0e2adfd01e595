"""Ports to listen at later, or again, which nobody else comes by meanwhile.

The kernel takes the near end of a connection from a range of its own; what it gives as a free
port is of that range too, and may be taken again as soon as it is let go of.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

_RANGE = range(12_000, 32_000)
"""Below the kernel's."""


def _numbers() -> Iterator[int]:
    """Each once, in each process from another one on."""
    first = os.getpid() * 1009
    for number in range(len(_RANGE)):
        yield _RANGE[(first + number) % len(_RANGE)]


_left = _numbers()


def free_port() -> int:
    """One that nobody listens at now, at any address, and that was not given before."""
    for port in _left:
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port
    raise AssertionError(f"no port of {_RANGE} is free")
