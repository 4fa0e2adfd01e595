"""The client's side of an HTTP/2 connection (RFC 9113) that carries requests with short answers.

Without IO: bytes from the server go into ``receive``, bytes for it come from ``take_output``.
A connection is used until ``usable`` is false; what it carries then still ends properly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from koord_wire.frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    DEFAULT_HEADER_TABLE_SIZE,
    DEFAULT_MAX_FRAME_SIZE,
    DEFAULT_WINDOW,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADER,
    HEADER_SIZE,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    NO_ERROR,
    PING,
    PREFACE,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_MASK,
    WINDOW_UPDATE,
    FrameBuffer,
    ProtocolError,
    content,
    frame,
    goaway,
    number,
    rst_stream,
    settings,
    window_update,
)
from koord_wire.headers import (
    MAX_HEADER_LIST,
    decode_headers,
    indexed_literal,
    literal,
    response_status,
    table_size,
)

MAX_WINDOW = 0x7FFF_FFFF
MAX_BODY = 16 << 20
"""Bytes of an answer; etcd keeps objects of 1.5 MiB at most."""
CREDIT = 1 << 20
"""Bytes of answers after which the server is allowed as many again."""
DEFAULT_STREAMS = 100
"""Requests at a time where the server's settings name no number. Before they are here: none."""
LAST_STREAM = 0x4000_0001
"""No stream is opened from here on: a new connection is cheaper than running out of numbers."""
TOKEN_INDEX = 62
"""Index of the newest entry of a dynamic table (RFC 7541 §2.3.3)."""

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. ``block`` are its headers as they came."""

    stream: int
    status: int
    block: bytes
    body: bytes

    def headers(self) -> dict[str, str]:
        """The headers, decoded: dear, and mostly only the status matters.

        Raises:
            ProtocolError: they are not a valid header block.
        """
        return dict(decode_headers(self.block))


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """A request that gets no answer.

    ``processed`` is false where the server says that it did nothing of it: it may be sent again.
    """

    stream: int
    reason: str
    processed: bool


Event = Response | StreamFailure


@dataclass(slots=True)
class _Stream:
    """One request under way. ``window`` bounds ``unsent``, its bytes that have not left yet."""

    window: int
    unsent: bytes = b""
    status: int = 0
    block: bytes = b""
    parts: list[bytes] = field(default_factory=list)
    received: int = 0


class UnaryConnection:
    """One connection. ``common`` are headers that each request has, in lower case.

    ``authorization`` is sent once and then named by one byte, while the server has room for it
    in its table of headers.
    """

    def __init__(self, scheme: bytes, authority: bytes, common: Headers = ()) -> None:
        fields = [(b":scheme", scheme), (b":authority", authority), *common]
        self._common = b"".join(literal(name, value) for name, value in fields)
        self._same: dict[tuple[bytes, Headers], bytes] = {}
        self._token = b""
        self._token_indexed = False
        self._table = DEFAULT_HEADER_TABLE_SIZE
        self._table_update = b""
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._most = 0
        self._window = DEFAULT_WINDOW
        self._stream_window = DEFAULT_WINDOW
        self._consumed = 0
        self._frame = DEFAULT_MAX_FRAME_SIZE
        self._buffer = FrameBuffer()
        self._block: tuple[int, int, bytes] | None = None
        self._events: list[Event] = []
        self._going_away = ""
        self._handlers = {
            DATA: self._data_received,
            HEADERS: self._headers_received,
            CONTINUATION: self._continued,
            RST_STREAM: self._reset_received,
            SETTINGS: self._settings_received,
            PUSH_PROMISE: self._push_received,
            PING: self._ping_received,
            GOAWAY: self._goaway_received,
            WINDOW_UPDATE: self._credit_received,
        }
        # Without a dynamic table each header block of the server stands alone.
        ours = {HEADER_TABLE_SIZE: 0, ENABLE_PUSH: 0, INITIAL_WINDOW_SIZE: MAX_BODY}
        payload = b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in ours.items())
        credit = window_update(0, MAX_WINDOW - DEFAULT_WINDOW)
        self._output = [PREFACE, frame(SETTINGS, 0, 0, payload), credit]

    # ---- requests

    @property
    def usable(self) -> bool:
        """True if requests may still be opened here, now or when others have ended."""
        return not self._going_away and self._next < LAST_STREAM

    @property
    def free(self) -> int:
        """Number of requests that may be opened now."""
        return max(0, self._most - len(self._streams)) if self.usable else 0

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def request(
        self, method: bytes, path: bytes, body: bytes, token: bytes = b"", headers: Headers = ()
    ) -> int:
        """Open a stream; ``free`` must not be 0. ``token`` is the authorization header.

        ``headers`` are to be of few kinds: how each is written is kept.
        """
        stream = self._next
        self._next += 2
        same = self._same.get((method, headers))
        if same is None:
            # Pseudo-headers come before all others; the common ones begin with two.
            more = b"".join(literal(name, value) for name, value in headers)
            same = literal(b":method", method) + self._common + more
            self._same[method, headers] = same
        update, self._table_update = self._table_update, b""
        block = update + literal(b":path", path) + same + self._authorization(token)
        opened = _Stream(self._stream_window, body)
        self._streams[stream] = opened
        self._write_block(stream, block, 0 if body else END_STREAM)
        self._send_body(stream, opened)
        return stream

    def retire(self, reason: str) -> None:
        """Open no more requests here; those that are open still end properly."""
        self._going_away = self._going_away or reason

    def cancel(self, stream: int) -> None:
        """Nobody waits for this answer any more."""
        if self._streams.pop(stream, None) is not None:
            self._output.append(rst_stream(stream, CANCEL))

    def _authorization(self, token: bytes) -> bytes:
        if not token:
            return b""
        # RFC 7541 §4.1; an entry larger than the table would empty it.
        if len(b"authorization") + len(token) + 32 > self._table:
            return literal(b"authorization", token)
        if self._token_indexed and token == self._token:
            return bytes((0x80 | TOKEN_INDEX,))
        self._token, self._token_indexed = token, True
        return indexed_literal(b"authorization", token)

    def _write_block(self, stream: int, block: bytes, flags: int) -> None:
        size = self._frame
        first, rest = block[:size], block[size:]
        flags |= 0 if rest else END_HEADERS
        self._output.append(frame(HEADERS, flags, stream, first))
        while rest:
            part, rest = rest[:size], rest[size:]
            done = 0 if rest else END_HEADERS
            self._output.append(frame(CONTINUATION, done, stream, part))

    def _send_body(self, stream: int, state: _Stream) -> None:
        while state.unsent:
            size = min(len(state.unsent), self._window, state.window, self._frame)
            if size <= 0:
                return
            part, state.unsent = state.unsent[:size], state.unsent[size:]
            self._window -= size
            state.window -= size
            self._output.append(frame(DATA, 0 if state.unsent else END_STREAM, stream, part))

    def take_output(self) -> bytes:
        """The bytes to send now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    # ---- what the server sends

    def receive(self, data: bytes) -> list[Event]:
        """Process received bytes; return the resulting events of requests.

        Raises:
            ProtocolError: the server broke HTTP/2. The connection is to be closed after the
                rest of ``take_output`` was sent, and ``close`` tells what became of requests,
                also of those that were answered before that in the same bytes.
        """
        data = self._buffer.feed(data)
        position = 0
        try:
            while len(data) - position >= HEADER_SIZE:
                high, low, kind, flags, stream = HEADER.unpack_from(data, position)
                size = high << 8 | low
                if size > DEFAULT_MAX_FRAME_SIZE:
                    raise ProtocolError(FRAME_SIZE_ERROR, f"a frame of {size} bytes")
                end = position + HEADER_SIZE + size
                if end > len(data):
                    break
                if self._block is not None and (kind, stream) != (CONTINUATION, self._block[0]):
                    raise ProtocolError(PROTOCOL_ERROR, "a header block is interrupted")
                handler = self._handlers.get(kind)
                if handler is not None:
                    handler(data, position, end, flags, stream & STREAM_MASK)
                position = end
        except ProtocolError as error:
            self._going_away = str(error)
            self._output.append(goaway(0, error.code, str(error)))
            raise
        self._keep(data[position:])
        return self._take_events()

    def close(self, reason: str) -> list[Event]:
        """The connection is gone: requests that have no answer by now get none any more."""
        self.retire(reason)
        for stream in list(self._streams):
            self._failed(stream, reason, processed=True)
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _keep(self, rest: bytes) -> None:
        if rest:
            need = HEADER_SIZE
            if len(rest) >= HEADER_SIZE:
                need += rest[0] << 16 | rest[1] << 8 | rest[2]
            self._buffer.keep(rest, need)

    def _headers_received(
        self, data: bytes, position: int, end: int, flags: int, stream: int
    ) -> None:
        block = content(data, position, end, flags)
        if flags & END_HEADERS:
            self._block_received(stream, flags, block)
        else:
            self._block = stream, flags, block

    def _continued(self, data: bytes, position: int, end: int, flags: int, stream: int) -> None:
        if self._block is None:
            raise ProtocolError(PROTOCOL_ERROR, "CONTINUATION of no header block")
        _, first, block = self._block
        block += data[position + HEADER_SIZE : end]
        if len(block) > MAX_HEADER_LIST:
            raise ProtocolError(PROTOCOL_ERROR, f"a header block of over {MAX_HEADER_LIST} bytes")
        self._block = None if flags & END_HEADERS else (stream, first, block)
        if flags & END_HEADERS:
            self._block_received(stream, first, block)

    def _block_received(self, stream: int, flags: int, block: bytes) -> None:
        state = self._streams.get(stream)
        if state is None:
            return  # cancelled; without a table nothing has to be followed
        if not state.status:
            status = response_status(block)
            if status >= 200:  # before that, more headers follow
                state.status, state.block = status, block
        if flags & END_STREAM:
            self._ended(stream, state)

    def _data_received(self, data: bytes, position: int, end: int, flags: int, stream: int) -> None:
        size = end - position - HEADER_SIZE
        self._consumed += size
        if self._consumed >= CREDIT:
            self._output.append(window_update(0, self._consumed))
            self._consumed = 0
        state = self._streams.get(stream)
        if state is None:
            return  # cancelled
        state.received += size
        state.parts.append(content(data, position, end, flags))
        if flags & END_STREAM:
            self._ended(stream, state)
        elif state.received >= MAX_BODY:
            self.cancel(stream)
            self._failed(stream, f"an answer of over {MAX_BODY} bytes", processed=True)

    def _ended(self, stream: int, state: _Stream) -> None:
        del self._streams[stream]
        if state.unsent:
            # It may answer before it has read all, and does not want the rest.
            self._output.append(rst_stream(stream, NO_ERROR))
        if state.status:
            self._events.append(Response(stream, state.status, state.block, b"".join(state.parts)))
        else:
            self._failed(stream, "an answer without headers", processed=True)

    def _failed(self, stream: int, reason: str, *, processed: bool) -> None:
        self._streams.pop(stream, None)
        self._events.append(StreamFailure(stream, reason, processed))

    def _reset_received(
        self, data: bytes, position: int, end: int, flags: int, stream: int
    ) -> None:
        code = number(data, position + HEADER_SIZE)
        if stream in self._streams:
            reason = f"the server reset the request (code {code})"
            self._failed(stream, reason, processed=code != REFUSED_STREAM)

    def _goaway_received(
        self, data: bytes, position: int, end: int, flags: int, stream: int
    ) -> None:
        start = position + HEADER_SIZE
        if end - start < 8:
            raise ProtocolError(FRAME_SIZE_ERROR, "GOAWAY is cut short")
        last, code = number(data, start), number(data, start + 4)
        text = data[start + 8 : end].decode(errors="replace")
        self._going_away = " ".join(f"the server closes the connection ({code}) {text}".split())
        for later in [later for later in self._streams if later > last]:
            self._failed(later, self._going_away, processed=False)

    def _ping_received(self, data: bytes, position: int, end: int, flags: int, stream: int) -> None:
        if not flags & ACK:
            self._output.append(frame(PING, ACK, 0, data[position + HEADER_SIZE : end]))

    def _push_received(self, data: bytes, position: int, end: int, flags: int, stream: int) -> None:
        raise ProtocolError(PROTOCOL_ERROR, "PUSH_PROMISE, which was switched off")

    def _settings_received(
        self, data: bytes, position: int, end: int, flags: int, stream: int
    ) -> None:
        if flags & ACK:
            return
        given = settings(data[position + HEADER_SIZE : end])
        self._most = given.get(MAX_CONCURRENT_STREAMS, self._most or DEFAULT_STREAMS)
        window = given.get(INITIAL_WINDOW_SIZE, self._stream_window)
        if window > MAX_WINDOW:
            raise ProtocolError(FLOW_CONTROL_ERROR, "an initial window of over 2^31-1 bytes")
        for state in self._streams.values():
            state.window += window - self._stream_window
        self._stream_window = window
        self._shrink_table(given.get(HEADER_TABLE_SIZE, self._table))
        self._output.append(frame(SETTINGS, ACK, 0))
        self._send_bodies()

    def _shrink_table(self, size: int) -> None:
        """The table is made smaller where the server has to; 4 KiB of it are enough for us."""
        if size < self._table:
            self._table = size
            self._table_update = table_size(size)
            self._token_indexed = False

    def _credit_received(
        self, data: bytes, position: int, end: int, flags: int, stream: int
    ) -> None:
        increment = number(data, position + HEADER_SIZE)
        if not stream:
            self._window += increment
            if self._window > MAX_WINDOW:
                raise ProtocolError(FLOW_CONTROL_ERROR, "a window of over 2^31-1 bytes")
            self._send_bodies()
        elif (state := self._streams.get(stream)) is not None:
            state.window += increment
            self._send_body(stream, state)

    def _send_bodies(self) -> None:
        for stream, state in self._streams.items():
            if state.unsent:
                self._send_body(stream, state)
