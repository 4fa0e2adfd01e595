"""Leaving a client without losing one of its calls (RFC 9113 §6.8).

1. GOAWAY with the largest stream id there is: make no more calls here. A PING goes
   behind it. Calls that come all the same are on their way already, and are served.
2. The client acknowledges the PING, so it has read the GOAWAY; or its time is up.
3. GOAWAY with the last stream that the client opened. Those above are left out: the
   client knows by this that nobody looked at them, and calls again elsewhere.

Left out is only what concerns the stream. Its bytes count for the connection's window,
and its header blocks are read, as the next ones may refer to them. The backend has not
seen them, and would not understand a later block: that can only be the trailers of an
earlier call, which ends without them. gRPC clients send none.
"""

from __future__ import annotations

from collections.abc import Callable

from koord_wire import frames
from koord_wire.frames import HEADER_SIZE, STREAM_MASK, Handler
from koord_wire.windows import ConnectionWindow

PING_PAYLOAD = b"koordbye"
"""Distinguishes our PING's acknowledgement from those for the backend."""


class Draining:
    """Progress of the graceful shutdown of one client's connection."""

    def __init__(
        self, handlers: list[Handler], window: ConnectionWindow, send: Callable[[bytes], None]
    ) -> None:
        """``handlers`` are those of the client's frames, by type; they are changed in place."""
        self.last_stream = 0
        """The last stream that the client opened."""
        self.allowed = STREAM_MASK
        """The last stream that a GOAWAY has named. It may only fall."""
        self.cut = STREAM_MASK
        """The last stream that is not left out."""
        self.announced = False
        """The client knows the last stream."""
        self._handlers = handlers
        self._inner = handlers.copy()
        self._window = window
        self._send = send
        self._begun = False
        self._ping_due = False
        self._blocks_left_out = False

    def begin(self) -> None:
        """Ask the client to go elsewhere; once is enough."""
        if self._begun:
            return
        self._begun = self._ping_due = True
        self._handlers[frames.PING] = self._ping
        self._send(self._goaway() + frames.frame(frames.PING, 0, 0, PING_PAYLOAD))

    def end(self) -> None:
        """Tell the client which stream was the last, and leave out what is above."""
        if self.announced:
            return
        self.announced = True
        self.cut = self.allowed = min(self.last_stream, self.allowed)
        for kind in range(len(self._handlers)):
            if kind != frames.PING:
                self._handlers[kind] = self._any
        self._handlers[frames.DATA] = self._data
        self._handlers[frames.HEADERS] = self._handlers[frames.CONTINUATION] = self._block
        self._send(self._goaway())

    def backend_goaway(self, buffer: bytes, position: int, end: int) -> bytes | None:
        """The backend's GOAWAY as the client may see it: none goes beyond ours before it."""
        at = position + HEADER_SIZE
        last = frames.number(buffer, at)
        if last <= self.allowed or not self._begun:
            self.allowed = min(last, self.allowed)
            return None
        return buffer[position:at] + self.allowed.to_bytes(4, "big") + buffer[at + 4 : end]

    def _goaway(self) -> bytes:
        return frames.goaway(self.allowed, frames.NO_ERROR)

    # ---- the client's frames

    def _ping(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        passed = self._inner[frames.PING](buffer, position, end, flags, stream_id)
        ours = self._ping_due and flags & frames.ACK
        if not ours or buffer[position + HEADER_SIZE : end] != PING_PAYLOAD:
            return passed
        # One such acknowledgement is ours. Should the backend have hit upon the same
        # payload, it gets the other one.
        self._ping_due = False
        self.end()
        return b""

    def _any(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        passed = self._inner[buffer[position + 3]](buffer, position, end, flags, stream_id)
        return passed if stream_id <= self.cut else b""

    def _data(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if stream_id <= self.cut:
            return self._inner[frames.DATA](buffer, position, end, flags, stream_id)
        length = end - position - HEADER_SIZE
        self._window.arrived(length)
        self._window.taken(length)
        return b""

    def _block(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        """A header block, or a part of one."""
        kind = buffer[position + 3]
        passed = self._inner[kind](buffer, position, end, flags, stream_id)
        if stream_id > self.cut:
            self._blocks_left_out = True
        elif not self._blocks_left_out:
            return passed
        # Frames of ours that waited for the end of the block stand behind it.
        waited = passed[end - position :] if passed else b""
        if kind == frames.CONTINUATION or stream_id > self.cut:
            return waited
        return frames.frame(frames.DATA, flags & frames.END_STREAM, stream_id)
