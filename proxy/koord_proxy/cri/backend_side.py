"""Frames from the backend: what becomes of each on its way to the client."""

from __future__ import annotations

from koord_wire import frames, messages
from koord_wire.frames import HEADER_SIZE, Handler, ProtocolError

from koord_proxy.cri import limits
from koord_proxy.cri.client_side import ClientSide
from koord_proxy.cri.held_calls import HeldCalls
from koord_proxy.cri.relay_state import CLIENT_SETTINGS, RelayState, followed_by
from koord_proxy.cri.scanner import Scanner
from koord_proxy.cri.streams import HELD, OURS, Phase, Stream, StreamEvent


class BackendSide:
    """Scans what the backend sends; ``client`` learns what its settings allow."""

    def __init__(self, state: RelayState, held: HeldCalls, client: ClientSide) -> None:
        self._state = state
        self._streams = state.streams
        self._held = held
        self._client = client
        self._client_table = frames.DEFAULT_HEADER_TABLE_SIZE
        handlers: list[Handler | None] = [None] * 256
        handlers[frames.DATA] = self._data
        handlers[frames.HEADERS] = self._headers
        handlers[frames.CONTINUATION] = self._continuation
        handlers[frames.PUSH_PROMISE] = self._push_promise
        handlers[frames.RST_STREAM] = self._rst_stream
        handlers[frames.SETTINGS] = self._settings
        handlers[frames.GOAWAY] = self._goaway
        handlers[frames.WINDOW_UPDATE] = self._window_update
        self.scanner = Scanner(handlers, state.to_client)

    def receive(self, data: bytes) -> None:
        """Bytes came from the backend."""
        self.scanner.max_frame = self._client.max_frame_to_client
        try:
            self.scanner.receive(data)
        except ProtocolError:
            # Responses that came before it: these calls have been made.
            self._state.to_client.append(self.scanner.before_error)
            raise

    def _data(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        stream = self._streams.get(stream_id)
        if stream is None:
            return None
        stream.tally.from_backend += end - position - HEADER_SIZE
        if stream.phase is not Phase.RELAYED:
            response = stream.response
            if response is not None:
                response += frames.content(buffer, position, end, flags)
                if len(response) > limits.MAX_RESPONSE:
                    stream.response = None
        rewritten = None
        if stream.answer_rule is not None:
            rewritten = self._rewritten(stream_id, stream, buffer[position:end], flags)
        if flags & frames.END_STREAM:
            self._response_complete(stream_id, stream)
        return rewritten

    def _rewritten(self, stream_id: int, stream: Stream, frame: bytes, flags: int) -> bytes | None:
        """Another frame for the first one of an answer, if that is a whole message.

        It is never larger, as the client may have no window for more, and an answer in several
        frames goes on as it is: nothing has to wait. The backend gets the rest of the window back.
        """
        rule, stream.answer_rule = stream.answer_rule, None
        content = frames.content(frame, 0, len(frame), flags)
        message = content[messages.PREFIX_SIZE :]
        if rule is None or content != messages.pack(message):
            return None  # of several frames, or compressed
        instead = rule(message)
        if instead is None or len(instead) > len(message):
            return None
        data = messages.pack(instead)
        if rest := len(frame) - HEADER_SIZE - len(data):
            self._state.send_to_backend(frames.window_update(0, rest))
        return frames.frame(frames.DATA, flags & frames.END_STREAM, stream_id, data)

    def _headers(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        self._state.backend_in_block = not flags & frames.END_HEADERS
        self._state.table_due = None
        stream = self._streams.get(stream_id)
        if stream is not None:
            if flags & frames.END_STREAM:
                self._response_complete(stream_id, stream)
            elif stream.phase is not Phase.RELAYED:
                stream.response_started = True
        return None

    def _push_promise(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        self._state.backend_in_block = not flags & frames.END_HEADERS
        return None

    def _continuation(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        self._state.backend_in_block = not flags & frames.END_HEADERS
        if self._state.backend_in_block:
            return None
        return followed_by(self._state.later_to_client, buffer[position:end])

    def _response_complete(self, stream_id: int, stream: Stream) -> None:
        """The backend has said all it has to say on a stream."""
        phase = stream.phase
        self._held.end(stream_id, stream)
        if phase is not Phase.RELAYED and phase is not Phase.WATCHED:
            unsent = stream_id in self._state.queue
            self._state.drop_queued(stream_id)
            if phase in HELD or unsent:
                # It answered without the request. It will not get one any more.
                self._state.send_to_backend(frames.rst_stream(stream_id, frames.CANCEL))
        self._streams.move(stream_id, StreamEvent.RESPONSE_END)

    def _rst_stream(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._state.drop_queued(stream_id)
            return None
        if stream.phase is not Phase.REFUSED:
            self._state.drop_queued(stream_id)
            self._held.end(stream_id, stream)
        gone = self._streams.move(stream_id, StreamEvent.BACKEND_RESET) is Phase.GONE
        return None if gone else b""

    def _settings(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if flags & frames.ACK:
            return self._settings_ack()
        values = frames.settings(buffer[position + HEADER_SIZE : end])
        self._state.windows_due.append(values.get(frames.INITIAL_WINDOW_SIZE))
        self._client.headers.allow_table(values.get(frames.HEADER_TABLE_SIZE, 0))
        to_backend = self._client.scanner
        to_backend.max_frame = max(to_backend.max_frame, values.get(frames.MAX_FRAME_SIZE, 0))
        if self._state.backend_silent:
            self._state.backend_silent = False
            return followed_by(self._state.later_to_client, buffer[position:end])
        return None

    def _settings_ack(self) -> bytes | None:
        state = self._state
        refused, table = state.acks_due.popleft() if state.acks_due else (CLIENT_SETTINGS, None)
        if refused != CLIENT_SETTINGS:
            return self._held.reset_confirmed(refused)
        if table is not None:
            if table < self._client_table:
                due = state.table_due
                state.table_due = table if due is None else min(table, due)
            self._client_table = table
        return None

    def _window_update(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if end - position != HEADER_SIZE + 4:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a WINDOW_UPDATE that is not of 4 bytes")
        increment = frames.number(buffer, position + HEADER_SIZE)
        if stream_id == 0:
            window = self._state.window
            if window.debt == 0:
                window.room += increment
                return None
            window.credited(increment)
            return b""
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase not in OURS:
            return None
        stream.window += increment
        # A client that is still sending may use it; later it could only overflow.
        return None if stream.phase is Phase.COLLECTING else b""

    def _goaway(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if end - position < HEADER_SIZE + 8:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a GOAWAY of fewer than 8 bytes")
        last = frames.number(buffer, position + HEADER_SIZE)
        for ignored in [number for number in self._streams if number > last]:
            self._state.drop_queued(ignored)
            self._held.end(ignored, self._streams[ignored])
            self._streams.move(ignored, StreamEvent.BACKEND_IGNORES)
        return self._client.draining.backend_goaway(buffer, position, end)
