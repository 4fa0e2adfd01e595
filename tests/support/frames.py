"""HTTP/2 frames for tests, written from RFC 9113 and not with the code under test.

Each peer has a factory of its own, because header compression has a memory: a
block is made once and then used both as what is sent and as what is expected.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

KINDS = (
    *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS"),
    *("PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"),
)
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20

HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 4, 5
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR = 0, 1, 3, 6
CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 8, 9, 11

Fields = Iterable[tuple[str, str]]
RESPONSE = ((":status", "200"), ("content-type", "application/grpc"))
"""The headers of a response."""


class Frame(NamedTuple):
    """One frame, read. Two of them are equal when their bytes are."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def __repr__(self) -> str:
        name = KINDS[self.kind] if self.kind < len(KINDS) else f"type {self.kind:#x}"
        size = len(self.payload)
        shown = self.payload[:24].hex(" ") + (" ..." if size > 24 else "")
        return f"<{name} stream={self.stream} flags={self.flags:#x} {size} bytes: {shown}>"


def read_frames(data: bytes) -> tuple[list[Frame], bytes]:
    """The whole frames in some bytes, and what is left over."""
    found = []
    position = 0
    while len(data) - position >= 9:
        high, low, kind, flags, stream = struct.unpack_from(">HBBBL", data, position)
        end = position + 9 + (high << 8 | low)
        if end > len(data):
            break
        found.append(Frame(kind, flags, stream, data[position + 9 : end]))
        position = end
    return found, data[position:]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBL", kind, flags, stream) + payload


def message(content: bytes, *, compressed: bool = False) -> bytes:
    """A gRPC message as it travels."""
    return struct.pack(">BL", compressed, len(content)) + content


def literals(fields: Fields) -> bytes:
    """A header block of literals without indexing: no table is used or moved."""

    def text(value: str) -> bytes:
        return hpack.hpack.encode_integer(len(value), 7) + value.encode()

    return b"".join(b"\x00" + text(name) + text(value) for name, value in fields)


def table_size(size: int) -> bytes:
    """The table size update that a header block may begin with."""
    update = hpack.hpack.encode_integer(size, 5)
    update[0] |= 0x20
    return bytes(update)


class FrameFactory:
    """What either peer sends; ``encoder`` remembers what its header blocks held."""

    def __init__(self) -> None:
        self.encoder = hpack.Encoder()

    def data(
        self, stream: int, data: bytes = b"", *, end: bool = False, padding: int | None = None
    ) -> bytes:
        flags = (END_STREAM if end else 0) | (0 if padding is None else PADDED)
        return frame(DATA, flags, stream, _padded(data, padding))

    def headers(self, stream: int, fields: Fields, **how: Any) -> bytes:
        """A header block, compressed; for ``how`` see ``block``."""
        return self.block(stream, self.encoder.encode(fields), **how)

    def block(
        self,
        stream: int,
        block: bytes,
        *,
        end: bool = False,
        padding: int | None = None,
        priority: bool = False,
        pieces: int = 1,
    ) -> bytes:
        """A header block in so many pieces: HEADERS, then CONTINUATION frames."""
        flags = (END_STREAM if end else 0) | (0 if padding is None else PADDED)
        flags |= PRIORITISED if priority else 0
        parts = list(_cut(block, pieces))
        first = (b"\x00\x00\x00\x00\x07" if priority else b"") + parts[0]
        frames = [(HEADERS, flags, _padded(first, padding))]
        frames += [(CONTINUATION, 0, part) for part in parts[1:]]
        kind, last_flags, payload = frames[-1]
        frames[-1] = (kind, last_flags | END_HEADERS, payload)
        return b"".join(frame(kind, flags, stream, payload) for kind, flags, payload in frames)

    def settings(self, values: Mapping[int, int] | None = None) -> bytes:
        pairs = (values or {}).items()
        return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", *pair) for pair in pairs))

    def settings_ack(self) -> bytes:
        return frame(SETTINGS, ACK, 0)

    def credit(self, stream: int, increment: int) -> bytes:
        return frame(WINDOW_UPDATE, 0, stream, struct.pack(">L", increment))

    def reset(self, stream: int, code: int = CANCEL) -> bytes:
        return frame(RST_STREAM, 0, stream, struct.pack(">L", code))

    def priority(self, stream: int) -> bytes:
        return frame(PRIORITY, 0, stream, b"\x00\x00\x00\x00\x0f")

    def ping(self, content: bytes = b"12345678", *, ack: bool = False) -> bytes:
        return frame(PING, ACK if ack else 0, 0, content)

    def goaway(self, last: int, code: int = NO_ERROR, text: bytes = b"") -> bytes:
        return frame(GOAWAY, 0, 0, struct.pack(">LL", last, code) + text)


class ClientFrames(FrameFactory):
    """What a gRPC client sends."""

    def request(self, stream: int, path: str, fields: Fields = (), **how: Any) -> bytes:
        all_fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            *fields,
        ]
        return self.headers(stream, all_fields, **how)

    def trailers(self, stream: int, fields: Fields = (("x-sum", "1"),)) -> bytes:
        return self.headers(stream, fields, end=True)


class ServerFrames(FrameFactory):
    """What a gRPC server sends."""

    def response(self, stream: int, fields: Fields = (), *, pieces: int = 1) -> bytes:
        return self.headers(stream, [*RESPONSE, *fields], pieces=pieces)

    def trailers(self, stream: int, status: int = 0, *, pieces: int = 1) -> bytes:
        return self.headers(stream, [("grpc-status", str(status))], end=True, pieces=pieces)

    def trailers_only(self, stream: int, status: int) -> bytes:
        return self.headers(stream, [*RESPONSE, ("grpc-status", str(status))], end=True)

    def answer(self, stream: int, content: bytes = b"done") -> bytes:
        """A whole call's response: headers, one message, trailers."""
        return self.response(stream) + self.data(stream, message(content)) + self.trailers(stream)

    def push_promise(self, stream: int, promised: int, fields: Fields, *, pieces: int = 1) -> bytes:
        first, *more = _cut(self.encoder.encode(fields), pieces)
        flags = 0 if more else END_HEADERS
        frames = [frame(PUSH_PROMISE, flags, stream, struct.pack(">L", promised) + first)]
        frames += [frame(CONTINUATION, 0, stream, part) for part in more[:-1]]
        frames += [frame(CONTINUATION, END_HEADERS, stream, part) for part in more[-1:]]
        return b"".join(frames)


def _padded(data: bytes, padding: int | None) -> bytes:
    return data if padding is None else bytes((padding,)) + data + bytes(padding)


def _cut(block: bytes, pieces: int) -> Iterator[bytes]:
    size = -(-len(block) // pieces)
    return (block[index * size : (index + 1) * size] for index in range(pieces))
