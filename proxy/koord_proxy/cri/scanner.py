"""Going through the frames of one direction."""

from __future__ import annotations

from collections.abc import Sequence

from koord_wire import frames
from koord_wire.frames import HEADER_SIZE, FrameBuffer, Handler, ProtocolError


class Scanner:
    """Passes whole frames on to ``out``, each as the handler of its type says.

    A type without a handler goes on as it is. ``handlers`` may be changed in place.
    """

    __slots__ = ("_out", "before_error", "buffer", "handlers", "max_frame", "stopped_on")

    def __init__(self, handlers: Sequence[Handler | None], out: list[bytes]) -> None:
        self.handlers = handlers
        self.buffer = FrameBuffer()
        """Bytes that are not whole frames yet, or that wait while scanning is stopped."""
        self.max_frame = frames.DEFAULT_MAX_FRAME_SIZE
        """The largest payload that the receiver allows."""
        self.stopped_on = 0
        """The stream whose next frame has to wait, and all bytes behind it; 0: none.

        A handler sets it, and the frame it was given for stays here.
        """
        self.before_error = b""
        """Frames that were to go on when the one behind them turned out to be wrong."""
        self._out = out

    def receive(self, data: bytes) -> None:
        """Scan bytes as they arrive; while scanning is stopped they wait.

        Raises:
            ProtocolError: the peer broke HTTP/2.
        """
        if self.stopped_on:
            self.buffer.keep(self.buffer.take() + data, 0)
        else:
            self.scan(self.buffer.feed(data))

    def resume(self) -> None:
        """Scan what waited."""
        self.stopped_on = 0
        self.scan(self.buffer.take())

    def scan(self, buffer: bytes) -> None:
        """Pass the whole frames of a buffer on; keep the rest.

        Frames that go on verbatim are sent in one piece as long as no other
        comes between, so a chunk without anything special is not copied.
        """
        position = start = 0
        size = len(buffer)
        unpack = frames.HEADER.unpack_from
        handlers, max_frame, out = self.handlers, self.max_frame, self._out
        need = HEADER_SIZE
        try:
            while size - position >= HEADER_SIZE:
                high, low, kind, flags, stream = unpack(buffer, position)
                length = high << 8 | low
                if length > max_frame:
                    raise ProtocolError(
                        frames.FRAME_SIZE_ERROR,
                        f"a frame of {length} bytes; {max_frame} are allowed",
                    )
                end = position + HEADER_SIZE + length
                if end > size:
                    need = HEADER_SIZE + length
                    break
                handler = handlers[kind]
                if handler is not None:
                    instead = handler(buffer, position, end, flags, stream & frames.STREAM_MASK)
                    if instead is not None:
                        if start < position:
                            out.append(buffer[start:position])
                        if self.stopped_on:
                            self.buffer.keep(buffer[position:], 0)
                            return
                        if instead:
                            out.append(instead)
                        start = end
                position = end
        except ProtocolError:
            if start < position:
                self.before_error = buffer[start:position]
            raise
        if start < position:
            out.append(buffer if position - start == size else buffer[start:position])
        self.buffer.keep(buffer[position:], need)
