"""ttrpc's unary calls as bytes: ten bytes of header in front, then a message. No IO.

Each of the two sides takes what came in with ``receive`` and leaves what is to go
out in ``out``, one item a frame. Calls that stream are refused, each for itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from google.protobuf.message import DecodeError
from koord_proto import nri_ttrpc_pb2 as pb

HEADER = struct.Struct(">IIBB")
"""Length of what follows, stream, type, flags."""
MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes that may follow a header."""

REQUEST, RESPONSE, DATA = 1, 2, 3

# gRPC's status codes, as far as they are said here.
OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 0, 3, 8, 9
UNIMPLEMENTED, INTERNAL = 12, 13

# No message may be that long, so a length's first byte is zero on a sound line.
_SENSELESS = 1 << 24
_NANO = 1_000_000_000


class TtrpcError(Exception):
    """The input is not valid ttrpc; the connection cannot be used any more."""


class TtrpcFrame(NamedTuple):
    """One frame; ``payload`` is None where it was too large to be kept."""

    stream: int
    kind: int
    flags: int
    size: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class TtrpcRequest:
    """A call that waits for ``respond`` or ``refuse``."""

    stream: int
    service: str
    method: str
    payload: bytes
    timeout: float | None
    """Seconds the caller waits; None is for ever."""


@dataclass(frozen=True, slots=True)
class TtrpcResponse:
    """End of a call of ours; the payload counts where ``code`` is ``OK``."""

    stream: int
    payload: bytes
    code: int = OK
    message: str = ""


class TtrpcFrameReader:
    """Cuts one direction's bytes into frames, wherever they were cut on the way."""

    __slots__ = ("_buffer", "_skip")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> list[TtrpcFrame]:
        """The frames that are whole now.

        Raises:
            TtrpcError: a length that no frame has. Frames before it were returned by the call
                before, so after frames call again, with no data.
        """
        self._buffer += data
        frames: list[TtrpcFrame] = []
        try:
            while (frame := self._next()) is not None:
                frames.append(frame)
        except TtrpcError:
            if not frames:
                raise
        return frames

    def _next(self) -> TtrpcFrame | None:
        skipped = min(self._skip, len(self._buffer))
        del self._buffer[:skipped]
        self._skip -= skipped
        if len(self._buffer) < HEADER.size:
            return None
        size, stream, kind, flags = HEADER.unpack_from(self._buffer)
        if size >= _SENSELESS:
            raise TtrpcError(f"a ttrpc frame of {size} bytes; at most {MAX_MESSAGE} are allowed")
        if size > MAX_MESSAGE:
            del self._buffer[: HEADER.size]
            self._skip = size
            return TtrpcFrame(stream, kind, flags, size, None)
        end = HEADER.size + size
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[HEADER.size : end])
        del self._buffer[:end]
        return TtrpcFrame(stream, kind, flags, size, payload)


def pack(stream: int, kind: int, message: bytes, flags: int = 0) -> bytes:
    """One whole frame.

    Raises:
        ValueError: the message is too large for one.
    """
    if len(message) > MAX_MESSAGE:
        raise ValueError(f"a ttrpc message of {len(message)} bytes; at most {MAX_MESSAGE} are sent")
    return HEADER.pack(len(message), stream, kind, flags) + message


class TtrpcServer:
    """The side that is called."""

    __slots__ = ("_last", "_open", "_reader", "out")

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self._reader = TtrpcFrameReader()
        self._last = 0
        self._open: set[int] = set()

    def receive(self, data: bytes) -> list[TtrpcRequest]:
        """The calls that came in whole; bad ones are refused here and left out.

        Raises:
            TtrpcError: the bytes are no frames; see ``TtrpcFrameReader.feed``.
        """
        requests = (self._request(frame) for frame in self._reader.feed(data))
        return [request for request in requests if request is not None]

    def respond(self, stream: int, payload: bytes) -> None:
        """Answer a call.

        Raises:
            ValueError: the answer is too large; the call still waits for one.
        """
        self._check(stream)
        message = pb.Response(payload=payload).SerializeToString()
        self.out.append(pack(stream, RESPONSE, message))
        self._open.remove(stream)

    def refuse(self, stream: int, code: int, message: str) -> None:
        """Answer a call with an error."""
        self._check(stream)
        self._open.remove(stream)
        self._say_no(stream, code, message)

    def _check(self, stream: int) -> None:
        if stream not in self._open:
            raise ValueError(f"ttrpc stream {stream} waits for no answer")

    def _request(self, frame: TtrpcFrame) -> TtrpcRequest | None:
        # Types that are not known are for versions to come; a response is nobody's here.
        if frame.kind not in (REQUEST, DATA):
            return None
        problem = self._problem(frame)
        if problem is None:
            self._last = frame.stream
            try:
                call = pb.Request.FromString(frame.payload or b"")
            except DecodeError:
                problem = INVALID_ARGUMENT, "the request cannot be read"
        if problem is not None:
            self._say_no(frame.stream, *problem)
            return None
        self._open.add(frame.stream)
        timeout = call.timeout_nano / _NANO if call.timeout_nano else None
        return TtrpcRequest(frame.stream, call.service, call.method, call.payload, timeout)

    def _problem(self, frame: TtrpcFrame) -> tuple[int, str] | None:
        if frame.payload is None:
            return RESOURCE_EXHAUSTED, f"{frame.size} bytes; at most {MAX_MESSAGE} are read"
        if not frame.stream % 2:
            return INVALID_ARGUMENT, f"stream {frame.stream} is even; a caller's are odd"
        if frame.kind == DATA:
            return INVALID_ARGUMENT, f"stream {frame.stream} is not open for data"
        if frame.stream <= self._last:
            return INVALID_ARGUMENT, f"stream {frame.stream} follows {self._last}; they increase"
        if frame.flags:
            return UNIMPLEMENTED, "calls that stream are not served here"
        return None

    def _say_no(self, stream: int, code: int, message: str) -> None:
        status = pb.Status(code=code, message=message)
        self.out.append(pack(stream, RESPONSE, pb.Response(status=status).SerializeToString()))


class TtrpcClient:
    """The side that calls."""

    __slots__ = ("_next", "_open", "_reader", "out")

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self._reader = TtrpcFrameReader()
        self._next = 1
        self._open: set[int] = set()

    def call(self, service: str, method: str, payload: bytes, timeout: float | None = None) -> int:
        """Make a call, and return its stream; ``timeout`` (seconds) is sent along.

        Raises:
            ValueError: the request is too large.
        """
        request = pb.Request(service=service, method=method, payload=payload)
        if timeout is not None:
            request.timeout_nano = int(timeout * _NANO)
        stream = self._next
        self.out.append(pack(stream, REQUEST, request.SerializeToString()))
        self._next += 2
        self._open.add(stream)
        return stream

    def receive(self, data: bytes) -> list[TtrpcResponse]:
        """The calls that ended.

        Raises:
            TtrpcError: the bytes are no frames; see ``TtrpcFrameReader.feed``.
        """
        ended = []
        for frame in self._reader.feed(data):
            # Nobody waits for other streams: calls that were ended here, or never made.
            if frame.stream in self._open:
                self._open.remove(frame.stream)
                ended.append(_response(frame))
        return ended


def _response(frame: TtrpcFrame) -> TtrpcResponse:
    if frame.payload is None:
        text = f"an answer of {frame.size} bytes; at most {MAX_MESSAGE} are read"
        return TtrpcResponse(frame.stream, b"", RESOURCE_EXHAUSTED, text)
    if frame.kind != RESPONSE:
        text = f"a frame of type {frame.kind} instead of an answer"
        return TtrpcResponse(frame.stream, b"", INTERNAL, text)
    try:
        answer = pb.Response.FromString(frame.payload)
    except DecodeError:
        return TtrpcResponse(frame.stream, b"", INTERNAL, "the answer cannot be read")
    return TtrpcResponse(frame.stream, answer.payload, answer.status.code, answer.status.message)
