"""The calls that are held, watched or refused: what is read of them, and what is decided."""

from __future__ import annotations

from koord_wire import frames, headers, messages
from koord_wire.frames import HEADER_SIZE

from koord_proxy.contract.events import CallAbandoned, CallEnded, RequestArrived
from koord_proxy.cri import limits
from koord_proxy.cri.relay_state import RelayState
from koord_proxy.cri.streams import HELD, Outgoing, Phase, Stream, StreamEvent

RESOURCE_EXHAUSTED = 8
"""gRPC status: the call is larger than what is allowed."""


class HeldCalls:
    """The life of the calls of a connection that are more than relayed.

    A refusal is sent only when the backend has confirmed, by acknowledging a
    SETTINGS frame put behind the reset, that it will say nothing more on that
    stream. Otherwise its header block could arrive late, on a stream the client has
    closed, and could not be left out either: the next ones may refer to it.
    """

    def __init__(self, state: RelayState) -> None:
        self._state = state
        self._streams = state.streams

    def release(self, stream_id: int, message: bytes | None) -> None:
        """Send a held request on: as it came, or this message in its place."""
        stream = self._decided(stream_id)
        if stream is None:
            return
        held = self.forget_body(stream)
        data = held if message is None else bytearray(messages.pack(message))
        self._streams.move(stream_id, StreamEvent.RELEASE)
        self._state.window.put(len(data))
        self._state.queue[stream_id] = Outgoing(data, end_stream=stream.client_done)

    def refuse(self, stream_id: int, status: int, message: str) -> None:
        """Answer a held request with a gRPC error, once the backend is done with it."""
        stream = self._decided(stream_id)
        if stream is not None:
            self._state.send_to_backend(self._refuse(stream_id, stream, status, message))

    def watch_data(
        self, stream_id: int, stream: Stream, buffer: bytes, position: int, end: int, flags: int
    ) -> None:
        """DATA of a watched request, which goes on meanwhile."""
        if len(stream.body) <= limits.MAX_MESSAGE and self._state.held_bytes <= limits.MAX_HELD:
            self._collect(stream, frames.content(buffer, position, end, flags))
        if flags & frames.END_STREAM:
            self._request_complete(stream_id, stream, held=False)

    def keep_data(
        self, stream_id: int, stream: Stream, buffer: bytes, position: int, end: int, flags: int
    ) -> bytes:
        """DATA of a stream of ours: collected, or dropped where the call is decided."""
        length = end - position - HEADER_SIZE
        state = self._state
        state.window.taken(length)
        done = bool(flags & frames.END_STREAM)
        stream.client_done |= done
        if stream.phase is not Phase.COLLECTING:
            if done:
                self._streams.move(stream_id, StreamEvent.CLIENT_END)
            return b""
        self._collect(stream, frames.content(buffer, position, end, flags))
        if len(stream.body) > limits.MAX_MESSAGE + messages.PREFIX_SIZE:
            return self._refuse_large(stream_id, stream, f"{limits.MAX_MESSAGE} bytes a message")
        if state.held_bytes > limits.MAX_HELD:
            return self._refuse_large(
                stream_id, stream, f"{limits.MAX_HELD} bytes held a connection"
            )
        if done:
            self._request_complete(stream_id, stream, held=True)
        elif length:
            state.send_to_client(frames.window_update(stream_id, length))
        return b""

    def trailers_wait(self, stream_id: int) -> None:
        """Trailers have to wait behind the request; there is no more of it, if it is held."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.phase is Phase.COLLECTING:
            self._request_complete(stream_id, stream, held=True)

    def reset_confirmed(self, stream_id: int) -> bytes:
        """The client's answer to a refused call, now that the backend is done with it."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.phase is not Phase.REFUSED:
            return b""
        self._streams.move(stream_id, StreamEvent.RESET_CONFIRMED)
        block = headers.refusal(*stream.refusal, trailers=stream.response_started)
        if self._state.table_due is not None:
            # The first block after the client lowered its table must say so.
            block = headers.table_size(self._state.table_due) + block
            self._state.table_due = None
        return frames.frame(
            frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream_id, block
        )

    def end(self, stream_id: int, stream: Stream) -> None:
        """Tell the shell what became of a call it knows of."""
        if stream.phase in HELD:
            self.forget_body(stream)
            if stream.phase is Phase.DECIDING:
                self._state.requests.append(CallAbandoned(stream_id))
        elif stream.phase is Phase.WATCHED or stream.phase is Phase.RELEASED:
            self.forget_body(stream)
            self._state.requests.append(CallEnded(stream_id, stream.answer()))

    def end_all(self) -> None:
        """Every call on the connection is over."""
        for stream_id, stream in self._streams.items():
            self.end(stream_id, stream)
        self._streams.clear()
        self._state.queue.clear()

    def forget_body(self, stream: Stream) -> bytearray:
        """Take the request's bytes read so far out of the stream."""
        body = stream.body
        stream.body = bytearray()
        self._state.held_bytes -= len(body)
        return body

    def _collect(self, stream: Stream, data: bytes) -> None:
        stream.body += data
        self._state.held_bytes += len(data)

    def _decided(self, stream_id: int) -> Stream | None:
        stream = self._streams.get(stream_id)
        return stream if stream is not None and stream.phase is Phase.DECIDING else None

    def _request_complete(self, stream_id: int, stream: Stream, *, held: bool) -> None:
        message, problem = None, ""
        try:
            message = messages.unpack(bytes(stream.body), stream.encoding, limits.MAX_MESSAGE)
        except messages.MessageError as error:
            problem = str(error)
        if held:
            self._streams.move(stream_id, StreamEvent.REQUEST_READ)
        else:
            self.forget_body(stream)
        self._state.requests.append(
            RequestArrived(stream_id, stream.method, message, held, problem)
        )

    def _refuse_large(self, stream_id: int, stream: Stream, limit: str) -> bytes:
        message = f"koord-runtime-proxy: the request is larger than what is held ({limit})"
        return self._refuse(stream_id, stream, RESOURCE_EXHAUSTED, message)

    def _refuse(self, stream_id: int, stream: Stream, status: int, message: str) -> bytes:
        """Refuse a call; return the frames that make the backend confirm the end of the stream."""
        self._streams.move(stream_id, StreamEvent.REFUSE)
        stream.refusal = (status, message)
        self.forget_body(stream)
        self._state.acks_due.append((stream_id, None))
        return frames.rst_stream(stream_id, frames.CANCEL) + frames.EMPTY_SETTINGS
