"""HTTP/2 frames (RFC 9113 §4, §6): their numbers, and writing the few we write."""

from __future__ import annotations

import struct
from collections.abc import Callable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""Bytes that a client sends before its first frame."""

HEADER = struct.Struct(">HBBBL")
"""A frame header: length (high 16 bits, low 8 bits), type, flags, stream."""
HEADER_SIZE = 9
STREAM_MASK = 0x7FFF_FFFF

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20

# SETTINGS identifiers we follow.
HEADER_TABLE_SIZE = 1
ENABLE_PUSH = 2
MAX_CONCURRENT_STREAMS = 3
INITIAL_WINDOW_SIZE = 4
MAX_FRAME_SIZE = 5

DEFAULT_HEADER_TABLE_SIZE = 4096
DEFAULT_WINDOW = 65_535
DEFAULT_MAX_FRAME_SIZE = 16_384
"""No peer may refuse a frame of this payload size, so ours are never larger."""

# Error codes.
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 6, 7, 8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11

Handler = Callable[[bytes, int, int, int, int], "bytes | None"]
"""Function applied to a frame on its way through.

It gets the bytes, where its frame begins and ends, flags and stream; it returns None to
let the frame go on as it is, or what goes on in its place.
"""


class ProtocolError(Exception):
    """The peer broke HTTP/2 in a way the relay cannot pass on.

    ``code`` is the HTTP/2 error code its connection is closed with.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One whole frame."""
    length = len(payload)
    return HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def window_update(stream: int, increment: int) -> bytes:
    """Credit for ``increment`` bytes, on a stream or (0) the connection."""
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def rst_stream(stream: int, code: int) -> bytes:
    """End a stream at once."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last_stream: int, code: int, text: str = "") -> bytes:
    """Open no more streams here; those above ``last_stream`` were not looked at."""
    payload = last_stream.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode()
    return frame(GOAWAY, 0, 0, payload)


EMPTY_SETTINGS = frame(SETTINGS, 0, 0)


def number(buffer: bytes, position: int) -> int:
    """The 31-bit number at a position: an increment, a stream id."""
    return int.from_bytes(buffer[position : position + 4], "big") & STREAM_MASK


def settings(payload: bytes) -> dict[int, int]:
    """The settings of a SETTINGS frame; of one named twice, the last counts."""
    if len(payload) % 6:
        raise ProtocolError(FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes")
    return dict(struct.iter_unpack(">HL", payload))


def content(buffer: bytes, position: int, end: int, flags: int) -> bytes:
    """The data of a DATA frame, or the block fragment of a HEADERS frame.

    ``position`` and ``end`` bound the whole frame. Padding and priority are
    left out.

    Raises:
        ProtocolError: the padding is longer than the frame.
    """
    start = position + HEADER_SIZE
    stop = end
    if flags & PADDED:
        if start >= end:
            raise ProtocolError(FRAME_SIZE_ERROR, "a padded frame without a padding length")
        stop = end - buffer[start]
        start += 1
    if flags & PRIORITISED and buffer[position + 3] == HEADERS:
        start += 5
    if start > stop:
        raise ProtocolError(PROTOCOL_ERROR, "a frame whose padding is longer than itself")
    return buffer[start:stop]


class FrameBuffer:
    """Bytes of one direction that are not whole frames yet.

    Joins what came in pieces once enough is there, so that a large frame in
    small pieces costs its size and not its square.
    """

    __slots__ = ("_have", "_need", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 0

    def __len__(self) -> int:
        return self._have

    def feed(self, data: bytes) -> bytes:
        """All bytes held and these; empty while they are fewer than needed."""
        if not self._parts:
            return data
        self._parts.append(data)
        self._have += len(data)
        return self.take() if self._have >= self._need else b""

    def take(self) -> bytes:
        """All bytes held, which are forgotten here."""
        data = b"".join(self._parts)
        self._parts.clear()
        self._have = 0
        return data

    def keep(self, rest: bytes, need: int) -> None:
        """Hold bytes until ``need`` of them are there."""
        if rest:
            self._parts.append(rest)
            self._have = len(rest)
            self._need = need
