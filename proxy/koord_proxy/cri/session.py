"""One client connection and its backend connection, as a machine without IO.

Bytes and decisions go in; bytes for either side and requests to the shell come
out. Frames go on verbatim and in order, on the same stream ids, with these
exceptions:

* DATA of a held stream stays here until the shell releases or refuses it.
* What that does to flow control is made good (``wire.windows``).
* A refused call is reset at the backend, and the client gets an error.
* A client that is asked to leave gets frames of ours for it (``draining``).

A refusal is sent only when the backend has confirmed, by acknowledging a
SETTINGS frame put behind the reset, that it will say nothing more on that
stream. Otherwise its header block could arrive late, on a stream the client has
closed, and could not be left out either: the next ones may refer to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from koord_proxy.cri.draining import Draining
from koord_proxy.cri.streams import HELD, OURS, PHASES, Outgoing, Phase, Stream
from koord_proxy.cri.wire import frames, headers, messages
from koord_proxy.cri.wire.frames import HEADER_SIZE, Handler, ProtocolError
from koord_proxy.cri.wire.windows import ConnectionWindow
from koord_proxy.events import (
    MAX_MESSAGE,
    CallAbandoned,
    CallEnded,
    Request,
    RequestArrived,
    Route,
    Treatment,
)

MAX_HEADER_BLOCK = 1 << 18
"""Bytes of one header block, compressed, over all its CONTINUATION frames."""
MAX_RESPONSE = 1 << 20
"""Bytes of a response that are read; those of intercepted calls are tiny."""
MAX_HELD = 4 * MAX_MESSAGE
"""Bytes of requests held or watched at a time on one connection."""
CLIENT_SETTINGS = 0
"""In the row of SETTINGS awaiting the backend's acknowledgement: the client's own."""

UNAVAILABLE = 14
"""gRPC status of a call refused because a hook did not happen."""
RESOURCE_EXHAUSTED = 8
"""gRPC status: the call is larger than what is allowed."""


class Session:
    """The relay between one client and the backend.

    Feed it with ``receive_from_client``, ``receive_from_backend``, ``release``
    and ``refuse``; after each, send what is in ``to_client`` and ``to_backend``
    and act on ``requests``, emptying all three. ``failed`` is set when the
    connections have to be closed once that is sent.
    """

    def __init__(self, route: Callable[[str], Route]) -> None:
        self.to_client: list[bytes] = []
        self.to_backend: list[bytes] = []
        self.requests: list[Request] = []
        self.failed: ProtocolError | None = None
        self.trouble = ""
        # HTTP/2 has no use for a half-closed connection.
        self.eof_to_client = self.eof_to_backend = False
        self._route = route
        self._streams: dict[int, Stream] = {}
        self._queue: dict[int, Outgoing] = {}
        self._window = ConnectionWindow()
        self._headers = headers.HeaderReader()
        self._client_in = frames.FrameBuffer()
        self._backend_in = frames.FrameBuffer()
        self._preface_due = True
        self._client_block: tuple[int, int, bytearray] | None = None
        self._backend_in_block = False
        # A client takes no frame before the backend's first SETTINGS.
        self._backend_silent = True
        # Frames of ours that would have come between the parts of a header block.
        self._later_to_client: list[bytes] = []
        self._later_to_backend: list[bytes] = []
        self._stalled_on = 0
        self._held_bytes = 0
        # SETTINGS the backend has yet to acknowledge, in order: the client's with
        # the header table they allow, or (a stream id) ours behind that stream's reset.
        self._acks_due: deque[tuple[int, int | None]] = deque()
        self._client_table = frames.DEFAULT_HEADER_TABLE_SIZE
        # A smaller table that the backend's next header block will begin with.
        self._table_due: int | None = None
        # Initial windows in SETTINGS the client has yet to acknowledge, in order.
        self._windows_due: deque[int | None] = deque()
        self._initial_window = frames.DEFAULT_WINDOW
        self._max_frame_to_backend = frames.DEFAULT_MAX_FRAME_SIZE
        self._max_frame_to_client = frames.DEFAULT_MAX_FRAME_SIZE
        self._client_handlers: list[Handler] = [self._client_other] * 256
        self._backend_handlers: list[Handler | None] = [None] * 256
        for name in (
            *("DATA", "HEADERS", "CONTINUATION", "PUSH_PROMISE", "RST_STREAM"),
            *("SETTINGS", "GOAWAY", "WINDOW_UPDATE"),
        ):
            kind, suffix = getattr(frames, name), name.lower()
            self._client_handlers[kind] = getattr(self, f"_client_{suffix}", self._client_other)
            self._backend_handlers[kind] = getattr(self, f"_backend_{suffix}", None)
        self._draining = Draining(self._client_handlers, self._window, self._send_to_client)

    # ---- what the shell calls

    @property
    def stalled(self) -> bool:
        """The client's next frame has to wait: stop reading from it."""
        return bool(self._stalled_on)

    @property
    def busy(self) -> bool:
        """Calls are under way."""
        return bool(self._streams)

    @property
    def drained(self) -> bool:
        """The client was told all there is to its leaving, and its calls are over."""
        in_block = self._backend_in_block or self._client_block is not None
        return self._draining.announced and not (self._streams or in_block)

    def receive_from_client(self, data: bytes) -> None:
        """Bytes came from the client."""
        if self.failed:
            return
        try:
            if self._stalled_on:
                self._client_in.keep(self._client_in.take() + data, 0)
                return
            self._scan_client(self._client_in.feed(data))
            self._after()
        except ProtocolError as error:
            self._fail(error)

    def receive_from_backend(self, data: bytes) -> None:
        """Bytes came from the backend."""
        if self.failed:
            return
        try:
            self._scan(
                self._backend_in.feed(data),
                self._backend_in,
                self._backend_handlers,
                self.to_client,
                self._max_frame_to_client,
            )
            self._after()
        except ProtocolError as error:
            self._fail(error)

    def client_eof(self) -> bool:
        """The client has gone."""
        return False

    def backend_eof(self) -> bool:
        """The backend has gone."""
        return False

    def release(self, stream_id: int, message: bytes | None = None) -> None:
        """Send a held request on: as it came, or this message in its place.

        Nothing happens if the call is over.
        """
        stream = self._decided(stream_id)
        if stream is None:
            return
        held = self._forget_body(stream)
        data = held if message is None else bytearray(messages.pack(message))
        stream.phase = Phase.RELEASED
        self._window.put(len(data))
        self._queue[stream_id] = Outgoing(data, end_stream=stream.client_done)
        self._after_decision()

    def refuse(self, stream_id: int, message: str, status: int = UNAVAILABLE) -> None:
        """Answer a held request with a gRPC error; nothing happens if the call is over."""
        stream = self._decided(stream_id)
        if stream is not None:
            self._send_to_backend(self._refuse(stream_id, stream, status, message))
            self._after_decision()

    def drain(self) -> None:
        """Tell the client to make its next calls on another connection."""
        if not self.failed:
            self._draining.begin()

    def cut_off(self) -> None:
        """The client had its time: leave out calls that it begins from here on."""
        if not self.failed:
            self._draining.end()

    def abandon(self) -> None:
        """One side is gone: every call on the connection is over."""
        for stream_id, stream in self._streams.items():
            self._end_call(stream_id, stream)
        self._streams.clear()
        self._queue.clear()

    # ---- going through frames

    def _scan_client(self, buffer: bytes) -> None:
        if self._preface_due and buffer:
            if not frames.PREFACE.startswith(buffer[: len(frames.PREFACE)]):
                raise ProtocolError(frames.PROTOCOL_ERROR, "the client does not speak HTTP/2")
            if len(buffer) < len(frames.PREFACE):
                self._client_in.keep(buffer, len(frames.PREFACE))
                return
            self._preface_due = False
            self.to_backend.append(frames.PREFACE)
            buffer = buffer[len(frames.PREFACE) :]
        self._scan(
            buffer,
            self._client_in,
            self._client_handlers,
            self.to_backend,
            self._max_frame_to_backend,
        )

    def _scan(
        self,
        buffer: bytes,
        rest: frames.FrameBuffer,
        handlers: list[Handler] | list[Handler | None],
        out: list[bytes],
        max_frame: int,
    ) -> None:
        """Pass the whole frames of a buffer on, each as its handler says; keep the rest.

        Frames that go on verbatim are sent in one piece as long as no other
        comes between, so a chunk without anything special is not copied.
        """
        position = start = 0
        size = len(buffer)
        unpack = frames.HEADER.unpack_from
        need = HEADER_SIZE
        while size - position >= HEADER_SIZE:
            high, low, kind, flags, stream = unpack(buffer, position)
            length = high << 8 | low
            if length > max_frame:
                raise ProtocolError(
                    frames.FRAME_SIZE_ERROR, f"a frame of {length} bytes; {max_frame} are allowed"
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
                    if self._stalled_on and rest is self._client_in:
                        rest.keep(buffer[position:], 0)
                        return
                    if instead:
                        out.append(instead)
                    start = end
            position = end
        if start < position:
            out.append(buffer if position - start == size else buffer[start:position])
        rest.keep(buffer[position:], need)

    def _after(self) -> None:
        """What may follow from anything: send what fits, credit, go on where stalled."""
        self._settle()
        while self._stalled_on and not self._must_stall(self._stalled_on):
            self._stalled_on = 0
            self._scan_client(self._client_in.take())
            self._settle()

    def _settle(self) -> None:
        if self._queue:
            self._flush()
        if self._window.debt < 0:
            self._send_to_client(frames.window_update(0, self._window.owed()))

    def _after_decision(self) -> None:
        """The same; a client that goes on where it stalled may turn out to be wrong."""
        try:
            self._after()
        except ProtocolError as error:
            self._fail(error)

    def _send_to_client(self, data: bytes) -> None:
        """Put a frame of ours between the backend's, where one may stand."""
        wait = self._backend_in_block or self._backend_silent
        (self._later_to_client if wait else self.to_client).append(data)

    def _send_to_backend(self, data: bytes) -> None:
        """The same towards the backend."""
        in_block = self._client_block is not None
        (self._later_to_backend if in_block else self.to_backend).append(data)

    def _fail(self, error: ProtocolError) -> None:
        self.failed = error
        if self._backend_silent:
            self.to_client.append(frames.EMPTY_SETTINGS)
        self.to_client.append(frames.goaway(0, error.code, str(error)))
        self.abandon()

    # ---- frames from the client

    def _client_other(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "a frame inside a header block")
        return None

    def _client_data(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "DATA inside a header block")
        length = end - position - HEADER_SIZE
        window = self._window
        window.arrived(length)
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.tally.from_client += length
            if stream.phase is Phase.WATCHED:
                self._watch_request(stream_id, stream, buffer, position, end, flags)
            elif stream.phase is not Phase.RELAYED:
                return self._keep_data(stream_id, stream, buffer, position, end, flags)
        waiting = self._queue.get(stream_id) if self._queue else None
        if length > window.room or waiting is not None:
            self._wait(stream_id, waiting, frames.content(buffer, position, end, flags), flags)
            window.taken(length - len(frames.content(buffer, position, end, flags)))
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

    def _watch_request(
        self, stream_id: int, stream: Stream, buffer: bytes, position: int, end: int, flags: int
    ) -> None:
        if len(stream.body) <= MAX_MESSAGE and self._held_bytes <= MAX_HELD:
            data = frames.content(buffer, position, end, flags)
            stream.body += data
            self._held_bytes += len(data)
        if flags & frames.END_STREAM:
            self._request_complete(stream_id, stream, held=False)

    def _keep_data(
        self, stream_id: int, stream: Stream, buffer: bytes, position: int, end: int, flags: int
    ) -> bytes:
        """DATA of a stream of ours: collected, or dropped where the call is decided."""
        length = end - position - HEADER_SIZE
        self._window.taken(length)
        done = bool(flags & frames.END_STREAM)
        stream.client_done |= done
        if stream.phase is not Phase.COLLECTING:
            if done and stream.phase is Phase.OVER:
                del self._streams[stream_id]
            return b""
        data = frames.content(buffer, position, end, flags)
        stream.body += data
        self._held_bytes += len(data)
        if len(stream.body) > MAX_MESSAGE + messages.PREFIX_SIZE:
            return self._refuse_large(stream_id, stream, f"{MAX_MESSAGE} bytes a message")
        if self._held_bytes > MAX_HELD:
            return self._refuse_large(stream_id, stream, f"{MAX_HELD} bytes held a connection")
        if done:
            self._request_complete(stream_id, stream, held=True)
        elif length:
            self._send_to_client(frames.window_update(stream_id, length))
        return b""

    def _refuse_large(self, stream_id: int, stream: Stream, limit: str) -> bytes:
        message = f"koord-runtime-proxy: the request is larger than what is held ({limit})"
        return self._refuse(stream_id, stream, RESOURCE_EXHAUSTED, message)

    def _forget_body(self, stream: Stream) -> bytearray:
        body = stream.body
        stream.body = bytearray()
        self._held_bytes -= len(body)
        return body

    def _request_complete(self, stream_id: int, stream: Stream, *, held: bool) -> None:
        message, problem = None, ""
        try:
            message = messages.unpack(bytes(stream.body), stream.encoding)
        except messages.MessageError as error:
            problem = str(error)
        if held:
            stream.phase = Phase.DECIDING
        else:
            self._forget_body(stream)
        self.requests.append(RequestArrived(stream_id, stream.method, message, held, problem))

    def _client_headers(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "HEADERS inside a header block")
        if stream_id == 0:
            raise ProtocolError(frames.PROTOCOL_ERROR, "HEADERS on no stream")
        if self._must_stall(stream_id):
            # Trailers behind DATA that waits here. They cannot overtake it, and
            # no other header block may overtake them: the client has to wait.
            self._stalled_on = stream_id
            stream = self._streams.get(stream_id)
            if stream is not None and stream.phase is Phase.COLLECTING:
                self._request_complete(stream_id, stream, held=True)
            return b""
        fragment = frames.content(buffer, position, end, flags)
        self._draining.last_stream = max(stream_id, self._draining.last_stream)
        if not flags & frames.END_HEADERS:
            self._client_block = (stream_id, flags, bytearray(fragment))
        else:
            self._headers_complete(stream_id, flags, fragment)
        return None

    def _must_stall(self, stream_id: int) -> bool:
        stream = self._streams.get(stream_id)
        return stream_id in self._queue or (stream is not None and stream.phase in HELD)

    def _client_continuation(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._client_block is None or self._client_block[0] != stream_id:
            raise ProtocolError(frames.PROTOCOL_ERROR, "CONTINUATION of no header block")
        _, first_flags, block = self._client_block
        block += buffer[position + HEADER_SIZE : end]
        if len(block) > MAX_HEADER_BLOCK:
            raise ProtocolError(
                frames.ENHANCE_YOUR_CALM, f"a header block of over {MAX_HEADER_BLOCK} bytes"
            )
        if flags & frames.END_HEADERS:
            self._client_block = None
            self._headers_complete(stream_id, first_flags, bytes(block))
            return _followed_by(self._later_to_backend, buffer[position:end])
        return None

    def _headers_complete(self, stream_id: int, flags: int, block: bytes) -> None:
        request = self._headers.read(block)
        if stream_id > self._draining.cut:
            return
        trailed = self._streams.get(stream_id)
        if trailed is not None or not request.path:
            # Trailers. gRPC clients send none, but HTTP/2 has them.
            if trailed is not None and trailed.phase is not Phase.RELAYED:
                trailed.client_done = True
                if trailed.phase is Phase.OVER:
                    del self._streams[stream_id]
            return
        treatment, tally, method = self._route(request.path)
        tally.calls += 1
        if flags & frames.END_STREAM and treatment is not Treatment.RELAY:
            # A request without a message is the backend's to complain about.
            treatment = Treatment.RELAY
        stream = Stream(PHASES[treatment], tally, method, request.encoding)
        if treatment is Treatment.HOLD:
            stream.window = self._initial_window
        self._streams[stream_id] = stream

    def _client_rst_stream(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "RST_STREAM inside a header block")
        stream = self._streams.pop(stream_id, None)
        self._drop_queued(stream_id)
        if stream is None:
            return None
        if stream.phase in (Phase.REFUSED, Phase.OVER):
            # The backend has had our reset.
            return b""
        self._end_call(stream_id, stream)
        return None

    def _client_settings(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if self._client_block is not None:
            raise ProtocolError(frames.PROTOCOL_ERROR, "SETTINGS inside a header block")
        if flags & frames.ACK:
            waiting = next((number for number in self._queue if not self._released(number)), None)
            if waiting is not None:
                # DATA sent before this may need the windows that this ends.
                self._stalled_on = waiting
                return b""
            if self._windows_due:
                self._apply_initial_window(self._windows_due.popleft())
            return None
        wanted = frames.settings(buffer[position + HEADER_SIZE : end])
        self._acks_due.append((CLIENT_SETTINGS, wanted.get(frames.HEADER_TABLE_SIZE)))
        self._max_frame_to_client = max(
            self._max_frame_to_client, wanted.get(frames.MAX_FRAME_SIZE, 0)
        )
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

    # ---- frames from the backend

    def _backend_data(
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
                if len(response) > MAX_RESPONSE:
                    stream.response = None
        if flags & frames.END_STREAM:
            self._response_complete(stream_id, stream)
        return None

    def _backend_headers(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        self._backend_in_block = not flags & frames.END_HEADERS
        self._table_due = None
        stream = self._streams.get(stream_id)
        if stream is not None:
            if flags & frames.END_STREAM:
                self._response_complete(stream_id, stream)
            elif stream.phase is not Phase.RELAYED:
                stream.response_started = True
        return None

    def _backend_push_promise(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        self._backend_in_block = not flags & frames.END_HEADERS
        return None

    def _backend_continuation(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        self._backend_in_block = not flags & frames.END_HEADERS
        if self._backend_in_block:
            return None
        return _followed_by(self._later_to_client, buffer[position:end])

    def _response_complete(self, stream_id: int, stream: Stream) -> None:
        """The backend has said all it has to say on a stream."""
        phase = stream.phase
        if phase is Phase.RELAYED or phase is Phase.WATCHED:
            self._end_call(stream_id, self._streams.pop(stream_id))
            return
        self._end_call(stream_id, stream)
        unsent = stream_id in self._queue
        self._drop_queued(stream_id)
        if phase in HELD or unsent:
            # It answered without the request. It will not get one any more.
            self._send_to_backend(frames.rst_stream(stream_id, frames.CANCEL))
        stream.phase = Phase.OVER
        if stream.client_done:
            del self._streams[stream_id]

    def _backend_rst_stream(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        stream = self._streams.get(stream_id)
        if stream is not None and stream.phase is Phase.REFUSED:
            return b""
        self._drop_queued(stream_id)
        if stream is not None:
            del self._streams[stream_id]
            self._end_call(stream_id, stream)
        return None

    def _backend_settings(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if flags & frames.ACK:
            refused, table = self._acks_due.popleft() if self._acks_due else (CLIENT_SETTINGS, None)
            if refused != CLIENT_SETTINGS:
                return self._reset_confirmed(refused)
            if table is not None:
                if table < self._client_table:
                    due = self._table_due
                    self._table_due = table if due is None else min(table, due)
                self._client_table = table
            return None
        wanted = frames.settings(buffer[position + HEADER_SIZE : end])
        self._windows_due.append(wanted.get(frames.INITIAL_WINDOW_SIZE))
        self._headers.allow_table(wanted.get(frames.HEADER_TABLE_SIZE, 0))
        self._max_frame_to_backend = max(
            self._max_frame_to_backend, wanted.get(frames.MAX_FRAME_SIZE, 0)
        )
        if self._backend_silent:
            self._backend_silent = False
            return _followed_by(self._later_to_client, buffer[position:end])
        return None

    def _backend_window_update(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if end - position != HEADER_SIZE + 4:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a WINDOW_UPDATE that is not of 4 bytes")
        increment = frames.number(buffer, position + HEADER_SIZE)
        if stream_id == 0:
            if self._window.debt == 0:
                self._window.room += increment
                return None
            self._window.credited(increment)
            return b""
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase not in OURS:
            return None
        stream.window += increment
        # A client that is still sending may use it; later it could only overflow.
        return None if stream.phase is Phase.COLLECTING else b""

    def _backend_goaway(
        self, buffer: bytes, position: int, end: int, flags: int, stream_id: int
    ) -> bytes | None:
        if end - position < HEADER_SIZE + 8:
            raise ProtocolError(frames.FRAME_SIZE_ERROR, "a GOAWAY of fewer than 8 bytes")
        last = frames.number(buffer, position + HEADER_SIZE)
        for ignored in [number for number in self._streams if number > last]:
            self._drop_queued(ignored)
            self._end_call(ignored, self._streams.pop(ignored))
        return self._draining.backend_goaway(buffer, position, end)

    # ---- held calls

    def _decided(self, stream_id: int) -> Stream | None:
        stream = self._streams.get(stream_id)
        return stream if stream is not None and stream.phase is Phase.DECIDING else None

    def _refuse(self, stream_id: int, stream: Stream, status: int, message: str) -> bytes:
        """What goes to the backend so that it confirms to be done with the stream."""
        stream.phase = Phase.REFUSED
        stream.refusal = (status, message)
        self._forget_body(stream)
        self._acks_due.append((stream_id, None))
        return frames.rst_stream(stream_id, frames.CANCEL) + frames.EMPTY_SETTINGS

    def _reset_confirmed(self, stream_id: int) -> bytes:
        """The client's answer to a refused call, now that the backend is done with it."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is not Phase.REFUSED:
            return b""
        stream.phase = Phase.OVER
        if stream.client_done:
            del self._streams[stream_id]
        block = headers.refusal(*stream.refusal, trailers=stream.response_started)
        if self._table_due is not None:
            # The first block after the client lowered its table must say so.
            block = headers.table_size(self._table_due) + block
            self._table_due = None
        return frames.frame(
            frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream_id, block
        )

    def _end_call(self, stream_id: int, stream: Stream) -> None:
        """Tell the shell what became of a call it knows of."""
        if stream.phase in HELD:
            self._forget_body(stream)
            if stream.phase is Phase.DECIDING:
                self.requests.append(CallAbandoned(stream_id))
        elif stream.phase in (Phase.WATCHED, Phase.RELEASED):
            self._forget_body(stream)
            self.requests.append(CallEnded(stream_id, stream.answer()))

    def _released(self, stream_id: int) -> Stream | None:
        stream = self._streams.get(stream_id)
        return stream if stream is not None and stream.phase is Phase.RELEASED else None

    def _drop_queued(self, stream_id: int) -> None:
        waiting = self._queue.pop(stream_id, None)
        if waiting is not None:
            self._window.dropped(len(waiting))

    def _flush(self) -> None:
        """Send what waits, as far as the backend's windows let us."""
        for stream_id, waiting in list(self._queue.items()):
            ours = self._released(stream_id)
            while True:
                size = min(len(waiting), frames.DEFAULT_MAX_FRAME_SIZE, self._window.room)
                if ours is not None:
                    size = min(size, ours.window)
                if size <= 0 < len(waiting):
                    break
                self._send_waiting(stream_id, waiting, size)
                if ours is not None:
                    ours.window -= size
                if not len(waiting):
                    del self._queue[stream_id]
                    break

    def _send_waiting(self, stream_id: int, waiting: Outgoing, size: int) -> None:
        data = bytes(waiting.data[waiting.position : waiting.position + size])
        waiting.position += size
        self._window.sent(size)
        last = waiting.end_stream and not len(waiting)
        self._send_to_backend(
            frames.frame(frames.DATA, frames.END_STREAM if last else 0, stream_id, data)
        )


def _followed_by(later: list[bytes], frame: bytes) -> bytes | None:
    """A frame, with what had to wait for it."""
    if not later:
        return None
    together = b"".join((frame, *later))
    later.clear()
    return together
