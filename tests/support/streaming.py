"""Just enough of a websocket client to see what a container's streams say."""

from __future__ import annotations

import base64
import os
import socket
import struct
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.support.processes import PATIENCE

STDOUT, STDERR, ERROR = 1, 2, 3
"""Channels of the protocol v4.channel.k8s.io: the first byte of each message."""

_BINARY, _CLOSE = 2, 8


class WebSocketStream:
    """A connection to an exec or attach URL, upgraded."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n"
            f"Origin: http://{parts.netloc}\r\n\r\n".encode()
        )
        self._read = self._socket.makefile("rb")
        self.status = self._read.readline().decode().strip()
        """The response's first line."""
        while self._read.readline().strip():
            pass

    def __enter__(self) -> WebSocketStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self._socket.close()

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Channel and data of each message, until the server closes."""
        while True:
            head = self._read.read(2)
            if len(head) < 2 or head[0] & 0xF == _CLOSE:
                return
            length = head[1] & 0x7F
            if length >= 126:
                form = ">H" if length == 126 else ">Q"
                (length,) = struct.unpack(form, self._read.read(struct.calcsize(form)))
            data = self._read.read(length)
            # Each channel begins with an empty message.
            if head[0] & 0xF == _BINARY and len(data) > 1:
                yield data[0], data[1:]
