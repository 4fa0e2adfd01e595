"""State shared by both sides of a session."""

from __future__ import annotations

from collections import deque

from koord_wire import frames
from koord_wire.windows import ConnectionWindow

from koord_proxy.contract.events import SessionEvent
from koord_proxy.cri.streams import Outgoing, Phase, Stream, StreamTable

CLIENT_SETTINGS = 0
"""In the row of SETTINGS awaiting the backend's acknowledgement: the client's own."""


class RelayState:
    """The streams of a connection, its windows, and the bytes that go out."""

    def __init__(self) -> None:
        self.to_client: list[bytes] = []
        self.to_backend: list[bytes] = []
        self.requests: list[SessionEvent] = []
        self.streams = StreamTable()
        self.queue: dict[int, Outgoing] = {}
        self.window = ConnectionWindow()
        self.held_bytes = 0
        self.client_block: tuple[int, int, bytearray] | None = None
        """A header block of the client of which more is to come: stream, flags, bytes."""
        self.backend_in_block = False
        self.backend_silent = True
        """A client takes no frame before the backend's first SETTINGS."""
        # Frames of ours that would have come between the parts of a header block.
        self.later_to_client: list[bytes] = []
        self.later_to_backend: list[bytes] = []
        # SETTINGS the backend has yet to acknowledge, in order: the client's with
        # the header table they allow, or (a stream id) ours behind that stream's reset.
        self.acks_due: deque[tuple[int, int | None]] = deque()
        # Initial windows in SETTINGS the client has yet to acknowledge, in order.
        self.windows_due: deque[int | None] = deque()
        self.table_due: int | None = None
        """A smaller table that the backend's next header block will begin with."""

    @property
    def in_block(self) -> bool:
        """A header block of either side is under way."""
        return self.backend_in_block or self.client_block is not None

    def released(self, stream_id: int) -> Stream | None:
        """The stream, if its request was released."""
        stream = self.streams.get(stream_id)
        return stream if stream is not None and stream.phase is Phase.RELEASED else None

    def send_to_client(self, data: bytes) -> None:
        """Put a frame of ours between the backend's, where one may stand."""
        wait = self.backend_in_block or self.backend_silent
        (self.later_to_client if wait else self.to_client).append(data)

    def send_to_backend(self, data: bytes) -> None:
        """The same towards the backend."""
        in_block = self.client_block is not None
        (self.later_to_backend if in_block else self.to_backend).append(data)

    def drop_queued(self, stream_id: int) -> None:
        """Forget what waits on a stream."""
        waiting = self.queue.pop(stream_id, None)
        if waiting is not None:
            self.window.dropped(len(waiting))

    def settle(self) -> None:
        """Send what fits into the backend's windows, and credit the client with what it is owed."""
        if self.queue:
            self._flush()
        if self.window.debt < 0:
            self.send_to_client(frames.window_update(0, self.window.owed()))

    def _flush(self) -> None:
        for stream_id, waiting in list(self.queue.items()):
            ours = self.released(stream_id)
            while True:
                size = min(len(waiting), frames.DEFAULT_MAX_FRAME_SIZE, self.window.room)
                if ours is not None:
                    size = min(size, ours.window)
                if size <= 0 < len(waiting):
                    break
                self._send_waiting(stream_id, waiting, size)
                if ours is not None:
                    ours.window -= size
                if not len(waiting):
                    del self.queue[stream_id]
                    break

    def _send_waiting(self, stream_id: int, waiting: Outgoing, size: int) -> None:
        data = bytes(waiting.data[waiting.position : waiting.position + size])
        waiting.position += size
        self.window.sent(size)
        last = waiting.end_stream and not len(waiting)
        self.send_to_backend(
            frames.frame(frames.DATA, frames.END_STREAM if last else 0, stream_id, data)
        )


def followed_by(later: list[bytes], frame: bytes) -> bytes | None:
    """A frame, with what had to wait for it; None where nothing had to."""
    if not later:
        return None
    together = b"".join((frame, *later))
    later.clear()
    return together
