"""NRI's multiplexer as bytes: several connections over one socket. No IO.

In front of each piece stand eight bytes: the connection's number and the
piece's length. Connections are not opened or closed; both sides know the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from koordlet.runtime_hooks.nri.protocol.ttrpc import HEADER as TTRPC_HEADER
from koordlet.runtime_hooks.nri.protocol.ttrpc import MAX_MESSAGE, TtrpcError

PLUGIN, RUNTIME = 1, 2
"""The connection on which the plugin is called, and the one on which the runtime is."""

HEADER = struct.Struct(">II")
MAX_PIECE = TTRPC_HEADER.size + MAX_MESSAGE
"""Bytes that may follow a header: one ttrpc frame."""

_FIRST_PIECE = 4096
"""Bytes of a frame that the other side surely accepts before it knows the size.

Its reader hands a piece to whoever reads the connection, and breaks the
connection where that one's buffer is smaller than the piece. Before a frame's
header is read that buffer has 4096 bytes, afterwards it fits the rest of the
frame exactly. It also breaks the connection when 256 pieces wait, so many small
ones are no way out.
"""


def pack(connection: int, frame: bytes) -> bytes:
    """A ttrpc frame as it travels: its beginning and its rest are pieces of their own."""
    pieces = (frame[:_FIRST_PIECE], frame[_FIRST_PIECE:])
    return b"".join(HEADER.pack(connection, len(piece)) + piece for piece in pieces if piece)


class MuxReader:
    """Takes apart what came over the socket, wherever it was cut on the way."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The pieces that are whole now, each with its connection's number.

        Raises:
            TtrpcError: a length that no piece has.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            connection, size = HEADER.unpack_from(self._buffer)
            if size > MAX_PIECE:
                raise TtrpcError(f"a piece of {size} bytes; at most {MAX_PIECE} are allowed")
            end = HEADER.size + size
            if len(self._buffer) < end:
                return
            piece = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield connection, piece
