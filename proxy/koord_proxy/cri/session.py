"""One client connection and its backend connection, as a machine without IO.

Bytes and decisions go in; bytes for either side and requests to the shell come
out. Frames go on verbatim and in order, on the same stream ids, with these
exceptions:

* DATA of a held stream stays here until the shell releases or refuses it (``held_calls``).
* What that does to flow control is made good (``koord_wire.windows``).
* A refused call is reset at the backend, and the client gets an error.
* A client that is asked to leave gets frames of ours for it (``draining``).

``streams`` has the life of a call as a table; ``client_side`` and ``backend_side`` say what
becomes of each frame.
"""

from __future__ import annotations

from collections.abc import Callable

from koord_wire import frames
from koord_wire.frames import ProtocolError

from koord_proxy.contract.events import Route
from koord_proxy.cri.backend_side import BackendSide
from koord_proxy.cri.client_side import ClientSide
from koord_proxy.cri.held_calls import HeldCalls
from koord_proxy.cri.relay_state import RelayState

UNAVAILABLE = 14
"""gRPC status of a call refused because a hook did not happen."""


class CriSession:
    """The relay between one client and the backend.

    Feed it with ``receive_from_client``, ``receive_from_backend``, ``release``
    and ``refuse``; after each, send what is in ``to_client`` and ``to_backend``
    and act on ``requests``, emptying all three. ``failed`` is set when the
    connections have to be closed once that is sent.
    """

    def __init__(self, route: Callable[[str], Route]) -> None:
        self._state = RelayState()
        self.to_client = self._state.to_client
        self.to_backend = self._state.to_backend
        self.requests = self._state.requests
        self.failed: ProtocolError | None = None
        # HTTP/2 has no use for a half-closed connection.
        self.eof_to_client = self.eof_to_backend = False
        self._held = HeldCalls(self._state)
        self._client = ClientSide(self._state, self._held, route)
        self._backend = BackendSide(self._state, self._held, self._client)

    @property
    def stalled(self) -> bool:
        """The client's next frame has to wait: stop reading from it."""
        return self._client.stalled

    @property
    def busy(self) -> bool:
        """Calls are under way."""
        return bool(self._state.streams)

    @property
    def drained(self) -> bool:
        """The client knows that it has to leave, and its calls are over."""
        over = not (self._state.streams or self._state.in_block)
        return self._client.draining.announced and over

    def receive_from_client(self, data: bytes) -> None:
        """Bytes came from the client."""
        if self.failed:
            return
        try:
            if self._client.stalled:
                self._client.scanner.receive(data)
                return
            self._client.receive(data)
            self._client.settle()
        except ProtocolError as error:
            self._fail(error)

    def receive_from_backend(self, data: bytes) -> None:
        """Bytes came from the backend."""
        if self.failed:
            return
        try:
            self._backend.receive(data)
            self._client.settle()
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
        self._held.release(stream_id, message)
        self._after_decision()

    def refuse(self, stream_id: int, message: str, status: int = UNAVAILABLE) -> None:
        """Answer a held request with a gRPC error; nothing happens if the call is over."""
        self._held.refuse(stream_id, status, message)
        self._after_decision()

    def drain(self) -> None:
        """Tell the client to make its next calls on another connection."""
        if not self.failed:
            self._client.draining.begin()

    def cut_off(self) -> None:
        """The client had its time: leave out calls that it begins from here on."""
        if not self.failed:
            self._client.draining.end()

    def abandon(self) -> None:
        """One side is gone: every call on the connection is over."""
        self._held.end_all()
        # What was read in part: whoever lingers is not to keep it here.
        self._client.scanner.buffer.take()
        self._backend.scanner.buffer.take()
        self._state.client_block = None

    def _after_decision(self) -> None:
        """Send what fits; a client that goes on where it stalled may turn out to be wrong."""
        if self.failed:
            return
        try:
            self._client.settle()
        except ProtocolError as error:
            self._fail(error)

    def _fail(self, error: ProtocolError) -> None:
        # Without the frames it was raised in: they have the bytes, and would keep them.
        self.failed = error.with_traceback(None)
        self.failed.__cause__ = self.failed.__context__ = None
        if self._state.backend_silent:
            self.to_client.append(frames.EMPTY_SETTINGS)
        self.to_client.append(frames.goaway(0, error.code, str(error)))
        self.abandon()
