"""The server's side of HTTP/2 for short writes, as fast as Python allows: for benches alone.

It follows frames, header compression, and flow control of what it gets (what it sends is little).
A header block that it has decoded once is known by its bytes from then on, but for the path,
which is its first field.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

from hpack import Decoder
from koord_wire import frames
from koord_wire.frames import ProtocolError, content, frame, window_update
from koord_wire.headers import literal

STREAMS = 1000
"""At a time, as kube-apiserver allows."""
_TABLE = 4096
_CREDIT = 1 << 20
_STATUS = {status: literal(b":status", b"%d" % status) for status in (200, 201, 404, 409)}
_JSON = literal(b"content-type", b"application/json")


class Write(NamedTuple):
    """A whole request."""

    method: bytes
    path: bytes
    body: bytes


class Answer(NamedTuple):
    """The status is one of 200, 201, 404 and 409."""

    status: int
    body: bytes


class _Stream(NamedTuple):
    method: bytes
    path: bytes
    parts: list[bytes]


class WriteConnection(asyncio.Protocol):
    """One client's connection; ``answer`` is called for each request once it is whole."""

    def __init__(self, answer: Callable[[Write], Answer]) -> None:
        self._answer = answer
        self._decoder = Decoder(max_header_list_size=1 << 20)
        self._known: dict[bytes, bytes] = {}
        self._streams: dict[int, _Stream] = {}
        self._held = b""
        self._preface = len(frames.PREFACE)
        self._consumed = 0
        self._output: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        ours = {frames.MAX_CONCURRENT_STREAMS: STREAMS, frames.HEADER_TABLE_SIZE: _TABLE}
        payload = b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in ours.items())
        credit = window_update(0, 1 << 30)
        self._transport.write(frame(frames.SETTINGS, 0, 0, payload) + credit)

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        position = 0
        if self._preface:
            if len(data) < self._preface:
                self._held = data
                return
            position, self._preface = self._preface, 0
        while len(data) - position >= frames.HEADER_SIZE:
            high, low, kind, flags, stream = frames.HEADER.unpack_from(data, position)
            end = position + frames.HEADER_SIZE + (high << 8 | low)
            if end > len(data):
                break
            self._frame(kind, flags, stream, content(data, position, end, flags))
            position = end
        self._held = data[position:]
        if self._consumed > _CREDIT:
            self._output.append(window_update(0, self._consumed))
            self._consumed = 0
        if self._output and self._transport is not None:
            self._transport.write(b"".join(self._output))
            self._output.clear()

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.DATA:
            self._consumed += len(payload)
            self._streams[stream].parts.append(payload)
        elif kind == frames.HEADERS:
            if not flags & frames.END_HEADERS:
                raise ProtocolError(frames.PROTOCOL_ERROR, "this double knows no CONTINUATION")
            self._streams[stream] = _Stream(*self._request(payload), [])
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            self._output.append(frame(frames.SETTINGS, frames.ACK, 0))
        elif kind == frames.PING and not flags & frames.ACK:
            self._output.append(frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.RST_STREAM:
            self._streams.pop(stream, None)
        if kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM:
            self._ended(stream)

    def _request(self, block: bytes) -> tuple[bytes, bytes]:
        """Method and path; a block that changes the table is decoded as a whole."""
        path, rest = _first_path(block)
        method = self._known.get(rest)
        if path and method is not None:
            return method, path
        entries = self._decoder.header_table.dynamic_entries
        before = entries[0] if entries else None
        fields = {bytes(k): bytes(v) for k, v in self._decoder.decode(block, raw=True)}
        if (entries[0] if entries else None) is not before:
            self._known.clear()
        elif path:
            self._known[rest] = fields[b":method"]
        if not fields.get(b"authorization", b"").startswith(b"Bearer "):
            raise ProtocolError(frames.PROTOCOL_ERROR, "a request without a token")
        return fields[b":method"], fields[b":path"]

    def _ended(self, stream: int) -> None:
        one = self._streams.pop(stream)
        status, body = self._answer(Write(one.method, one.path, b"".join(one.parts)))
        block = _STATUS[status] + _JSON
        self._output += (
            frame(frames.HEADERS, frames.END_HEADERS, stream, block),
            frame(frames.DATA, frames.END_STREAM, stream, body),
        )


def _first_path(block: bytes) -> tuple[bytes, bytes]:
    """The path, if it is the block's first field in its plainest form, and the other fields."""
    name = b"\x00\x05:path"
    if not block.startswith(name) or block[len(name)] >= 0x7F:
        return b"", block
    start = len(name) + 1
    end = start + block[len(name)]
    return block[start:end], block[end:]
