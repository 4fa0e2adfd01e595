"""Frames from the client: what becomes of each on its way to the backend."""

from __future__ import annotations

from collections.abc import Callable

from koord_wire import frames, headers
from koord_wire.frames import HEADER_SIZE, Handler, ProtocolError

from koord_proxy.contract.events import Route, Treatment
from koord_proxy.cri import limits
from koord_proxy.cri.draining import Draining
from koord_proxy.cri.held_calls import HeldCalls
from koord_proxy.cri.relay_state import CLIENT_SETTINGS, RelayState, followed_by
from koord_proxy.cri.scanner import Scanner
from koord_proxy.cri.streams import (
    HELD,
    INITIAL_PHASES,
    OURS,
    Outgoing,
    Phase,
    Stream,
    StreamEvent,
)


class ClientSide:
    """Scans what the client sends; ``route`` says how the call of a path is treated."""

    def __init__(self, state: RelayState, held: HeldCalls, route: Callable[[str], Route]) -> None:
        self.headers = headers.HeaderReader()
        self.max_frame_to_client = frames.DEFAULT_MAX_FRAME_SIZE
        """The largest frame that the client takes, which its SETTINGS say."""
        self._state = state
        self._streams, self._queue, self._window = state.streams, state.queue, state.window
        self._held = held
        self._route = route
        self._preface_due = True
        self._initial_window = frames.DEFAULT_WINDOW
        handlers: list[Handler] = [self._other] * 256
        handlers[frames.DATA] = self._data
        handlers[frames.HEADERS] = self._headers
        handlers[frames.CONTINUATION] = self._continuation
        handlers[frames.RST_STREAM] = self._rst_stream
        handlers[frames.SETTINGS] = self._settings
        self.scanner = Scanner(handlers, state.to_backend)
        self.draining = Draining(handlers, state.window, state.send_to_client)

    @property
    def stalled(self) -> bool:
        """The client's next frame has to wait."""
        return bool(self.scanner.stopped_on)

    def receive(self, data: bytes) -> None:
        """Bytes came from the client."""
        if not self._preface_due:
            self.scanner.receive(data)
            return
        buffer = self.scanner.buffer.feed(data)
        if not buffer:
            return
        if not frames.PREFACE.startswith(buffer[: len(frames.PREFACE)]):
            raise ProtocolError(frames.PROTOCOL_ERROR, "the client does not speak HTTP/2")
        if len(buffer) < len(frames.PREFACE):
            self.scanner.buffer.keep(buffer, len(frames.PREFACE))
            return
        self._preface_due = False
        self._state.to_backend.append(frames.PREFACE)
        self.scanner.scan(buffer[len(frames.PREFACE) :])

    def settle(self) -> None:
        """Send what fits, credit the peers, and continue stalled frames: due after any event."""
        self._state.settle()
        while self.scanner.stopped_on and not self._must_stall(self.scanner.stopped_on):
            self.scanner.resume()
            self._state.settle()

    def _must_stall(self, stream_id: int) -> bool:
        stream = self._streams.get(stream_id)
        return stream_id in self._queue or (stream is not None and stream.phase in HELD)

    # ---- frames

    def _other(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._state.client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a frame inside a header block")
        return None

    def _data(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._state.client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "DATA inside a header block")
        length = end - position - HEADER_SIZE
        window = self._window
        window.arrived(length)
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.tally.from_client += length
            if stream.phase is Phase.WATCHED:
                self._held.watch_data(stream_id, stream, buffer, position, end, flags)
            elif stream.phase is not Phase.RELAYED:
                return self._held.keep_data(stream_id, stream, buffer, position, end, flags)
        waiting = self._queue.get(stream_id) if self._queue else None
        if length > window.room or waiting is not None:
            data = frames.content(buffer, position, end, flags)
            self._wait(stream_id, waiting, data, flags)
            window.taken(length - len(data))
            return b""
        window.room -= length
        return None

    def _wait(self, stream_id: int, waiting: Outgoing | None, data: bytes, flags: int) -> None:
        """Relayed DATA for which the backend has no room."""
        self._window.queue(len(data))
        if waiting is None:
            waiting = self._queue[stream_id] = Outgoing(bytearray(), end_stream=False)
        del waiting.data[: waiting.position]
        waiting.position = 0
        waiting.data += data
        waiting.end_stream = bool(flags & frames.END_STREAM)

    def _headers(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._state.client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "HEADERS inside a header block")
        if stream_id == 0:
            raise ProtocolError(frames.PROTOCOL_ERROR, "HEADERS on no stream")
        if self._must_stall(stream_id):
            # Trailers behind DATA that waits here. They cannot overtake it, and
            # no other header block may overtake them: the client has to wait.
            self.scanner.stopped_on = stream_id
            self._held.trailers_wait(stream_id)
            return b""
        fragment = frames.content(buffer, position, end, flags)
        self.draining.last_stream = max(stream_id, self.draining.last_stream)
        if not flags & frames.END_HEADERS:
            self._state.client_block = (stream_id, flags, bytearray(fragment))
        else:
            self._headers_complete(stream_id, flags, fragment)
        return None

    def _continuation(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._state.client_block is None or self._state.client_block[0] != stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "CONTINUATION of no header block")
        _, first_flags, block = self._state.client_block
        block += buffer[position + HEADER_SIZE : end]
        if len(block) > limits.MAX_HEADER_BLOCK:
            raise ProtocolError(
                frames.ENHANCE_YOUR_CALM, f"a header block of over {limits.MAX_HEADER_BLOCK} bytes"
            )
        if flags & frames.END_HEADERS:
            self._state.client_block = None
            self._headers_complete(stream_id, first_flags, bytes(block))
            return followed_by(self._state.later_to_backend, buffer[position:end])
        return None

    def _headers_complete(self, stream_id: int, flags: int, block: bytes) -> None:
        request = self.headers.read(block)
        if stream_id > self.draining.cut:
            return
        trailed = self._streams.get(stream_id)
        if trailed is not None or not request.path:
            # Trailers. gRPC clients send none, but HTTP/2 has them.
            if trailed is not None and trailed.phase is not Phase.RELAYED:
                trailed.client_done = True
                self._streams.move(stream_id, StreamEvent.CLIENT_END)
            return
        treatment, tally, method, answer = self._route(request.path)
        tally.calls += 1
        if flags & frames.END_STREAM and treatment is not Treatment.RELAY:
            # A request without a message is the backend's to complain about.
            treatment = Treatment.RELAY
        stream = Stream(INITIAL_PHASES[treatment], tally, method, request.encoding)
        stream.answer_rule = answer
        if treatment is Treatment.HOLD:
            stream.window = self._initial_window
        self._streams[stream_id] = stream

    def _rst_stream(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._state.client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "RST_STREAM inside a header block")
        self._state.drop_queued(stream_id)
        stream = self._streams.get(stream_id)
        if stream is None:
            return None
        # The backend may have had our reset.
        known = stream.phase is not Phase.REFUSED and stream.phase is not Phase.ANSWERED
        self._held.end(stream_id, stream)
        self._streams.move(stream_id, StreamEvent.CLIENT_RESET)
        return None if known else b""

    def _settings(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._state.client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "SETTINGS inside a header block")
        if flags & frames.ACK:
            return self._settings_ack()
        values = frames.settings(buffer[position + HEADER_SIZE : end])
        self._state.acks_due.append((CLIENT_SETTINGS, values.get(frames.HEADER_TABLE_SIZE)))
        self.max_frame_to_client = max(
            self.max_frame_to_client, values.get(frames.MAX_FRAME_SIZE, 0)
        )
        return None

    def _settings_ack(self) -> bytes | None:
        released = self._state.released
        waiting = next((number for number in self._queue if not released(number)), None)
        if waiting is not None:
            # DATA sent before this may need the windows that this ends.
            self.scanner.stopped_on = waiting
            return b""
        if self._state.windows_due:
            self._apply_initial_window(self._state.windows_due.popleft())
        return None

    def _apply_initial_window(self, size: int | None) -> None:
        """The client has taken in SETTINGS of the backend: from here on they count.

        Seen from the backend, client and relay are one peer, so what we send
        keeps to the same moment.
        """
        if size is None:
            return
        change = size - self._initial_window
        self._initial_window = size
        for stream in self._streams.values():
            if stream.phase in OURS:
                stream.window += change
