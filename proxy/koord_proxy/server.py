"""The sockets: a client connection each with its own to the backend, joined by a session.

Bytes are written as soon as a session yields them. A side that reads slowly
stops the other from being read, so that nothing piles up here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable
from typing import Any, cast

from koord_service.log_limits import LogLimiter
from koord_service.logs import get_log
from koord_service.sockets import BACKLOG

from koord_proxy.contract.events import RelaySession, Route
from koord_proxy.interceptor import InterceptedCall, Interceptor

log = get_log("koord_proxy.server")

WRITE_AHEAD = 1 << 20
"""Bytes that may wait to be written to one side before the other is not read."""
ASK_SECONDS = 1.0
"""Time for a client to acknowledge the request to reconnect."""
LINGER_SECONDS = 1.0
"""Time for a client to close its side after the proxy closed its own."""


# The socket file may be systemd's, and the next process goes on with it.
_KEEP_SOCKET: Any = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class _Side(asyncio.Protocol):
    """One of the two sockets of a connection."""

    def __init__(
        self,
        receive: Callable[[bytes], None],
        lost: Callable[[], None],
        may_write: Callable[[], None],
        ended: Callable[[], bool],
    ) -> None:
        # Called for every chunk: given as they are, without a method in between.
        self.data_received = receive  # type: ignore[method-assign,assignment]
        self._lost = lost
        self._may_write = may_write
        self._ended = ended
        self.transport: asyncio.Transport | None = None
        self.full = False
        self.ended = False
        """It sends no more."""
        self.eof_sent = False
        """It knows that nothing more is sent to it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_AHEAD)

    def eof_received(self) -> bool:
        self.ended = True
        return self._ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()

    def end(self) -> None:
        """Say that nothing more is sent to it, once."""
        if not self.eof_sent and self.transport is not None and not self.transport.is_closing():
            self.eof_sent = True
            self.transport.write_eof()

    def pause_writing(self) -> None:
        self.full = True
        self._may_write()

    def resume_writing(self) -> None:
        self.full = False
        self._may_write()


class ClientConnection:
    """A client, its connection to the backend, and the session between them."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._session = relay.session(relay.interceptor.route)
        self._calls: dict[int, InterceptedCall] = {}
        self._closed = self._stalled = self._acting = False
        # What is to happen if the client does not do its part of leaving.
        self._timer: asyncio.TimerHandle | None = None
        self.client = _Side(
            self._from_client, self._client_lost, self._throttle, self._client_ended
        )
        self.backend = _Side(
            self._from_backend, self._backend_lost, self._throttle, self._backend_ended
        )

    # ---- bytes

    def _from_client(self, data: bytes) -> None:
        if self._closed:
            # Read so that the client can hang up in peace.
            return
        self._session.receive_from_client(data)
        self._pump()

    def _from_backend(self, data: bytes) -> None:
        if self._closed:
            return
        self._session.receive_from_backend(data)
        self._pump()

    def _pump(self) -> None:
        """Do what the session wants: notes first, then bytes, so that none is sent unnoted."""
        if self._closed or self._acting:
            return
        session = self._session
        self._acting = True
        try:
            # A decision made at once may make the session want more.
            while session.requests:
                self._act()
        finally:
            self._acting = False
        if session.to_backend:
            self._write(self.backend, session.to_backend)
        if session.to_client:
            self._write(self.client, session.to_client)
        if session.stalled != self._stalled or self.backend.transport is None:
            # Either side's bytes may have begun or ended it.
            self._stalled = session.stalled
            self._throttle()
        if session.failed:
            self._relay.warnings.warning("connection closed", error=str(session.failed))
        if session.failed or session.drained:
            self._hang_up()
        elif session.eof_to_backend or session.eof_to_client:
            self._half_close()

    def _half_close(self) -> None:
        """One direction of a tunnel is over; with both, so is the connection."""
        session = self._session
        if session.eof_to_backend:
            self.backend.end()
        if session.eof_to_client:
            self.client.end()
        if session.eof_to_backend and session.eof_to_client:
            self.close()

    def _act(self) -> None:
        requests = self._session.requests.copy()
        self._session.requests.clear()
        self._relay.interceptor.handle(self, self._calls, requests)

    @staticmethod
    def _write(side: _Side, data: list[bytes]) -> None:
        transport = side.transport
        if transport is not None and transport.is_closing():
            # Whoever is leaving needs nothing any more.
            data.clear()
        elif transport is not None:
            transport.write(data[0] if len(data) == 1 else b"".join(data))
            data.clear()

    def _throttle(self) -> None:
        """Read from a side only while the other takes what comes of it."""
        if self._closed:
            return
        for side, ready in (
            (self.client, self._may_read_client()),
            (self.backend, not self.client.full),
        ):
            transport = side.transport
            if transport is None or side.ended or transport.is_closing():
                continue
            if transport.is_reading() == ready:
                continue
            if ready:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _may_read_client(self) -> bool:
        backend = self.backend
        return backend.transport is not None and not backend.full and not self._session.stalled

    # ---- decisions

    def release(self, stream: int, message: bytes | None = None) -> None:
        """Send a held request on."""
        self._session.release(stream, message)
        self._pump()

    def refuse(self, stream: int, message: str) -> None:
        """Answer a held request with an error."""
        self._session.refuse(stream, message)
        self._pump()

    # ---- life

    async def open(self) -> None:
        """Connect to the backend; close the client's connection if that fails."""
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: self.backend, self._relay.backend_path)
        except OSError as error:
            self._relay.backend_away(error)
            self._hang_up()
            return
        self._relay.backend_there()
        if self._closed:
            self._close(self.backend)
        else:
            # What the client has sent meanwhile.
            self._pump()
            self._throttle()

    def drain(self) -> None:
        """Ask the client to go elsewhere, and hang up once its calls have ended."""
        if self._closed:
            return
        self._wait(ASK_SECONDS, self._cut_off)
        self._session.drain()
        self._pump()

    def _cut_off(self) -> None:
        self._session.cut_off()
        self._pump()

    def _client_ended(self) -> bool:
        goes_on = not self._closed and self._session.client_eof()
        self._pump()
        return goes_on

    def _backend_ended(self) -> bool:
        goes_on = not self._closed and self._session.backend_eof()
        self._pump()
        return goes_on

    def _client_lost(self) -> None:
        self.close()
        self._relay.closed(self)

    def _backend_lost(self) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        """Say no more to the client, and wait for it to hang up.

        A socket that is closed while something in it is unread is reset, which
        may come before what the client has yet to read.
        """
        client = self.client.transport
        if self._closed:
            return
        if client is None or client.is_closing() or self.client.ended:
            self.close()
            return
        self._end()
        self._close(self.backend)
        self._wait(LINGER_SECONDS, self.close)
        self.client.end()
        if not client.is_reading():
            client.resume_reading()

    def close(self) -> None:
        """End both sides once what is written has gone out; every call is over."""
        self._end()
        self._close(self.client)
        self._close(self.backend)

    def _end(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._session.abandon()
        self._act()

    @staticmethod
    def _close(side: _Side) -> None:
        if side.transport is not None:
            side.transport.close()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, then)


class Relay:
    """Accepts clients and keeps their connections."""

    def __init__(
        self,
        *,
        backend_path: str,
        session: Callable[[Callable[[str], Route]], RelaySession],
        interceptor: Interceptor,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.backend_path = backend_path
        self.session = session
        self.interceptor = interceptor
        self.connections: set[ClientConnection] = set()
        self.backend_error = ""
        self.warnings = LogLimiter(log)
        """Limiter of log lines that any client can cause at will."""
        self.ended = 0
        """Connections that have ended."""
        self.backend_returned: Callable[[], None] = lambda: None
        """Called when the backend can be reached again after it could not."""
        self._tasks = tasks
        self._servers: list[asyncio.Server] = []
        self._all_closed = asyncio.Event()

    async def listen(self, sockets: list[socket.socket]) -> None:
        """Accept clients on these listening sockets."""
        loop = asyncio.get_running_loop()
        for listener in sockets:
            # Without it asyncio would listen again, with a backlog of 100.
            server = await loop.create_unix_server(
                self._accept, sock=listener, backlog=BACKLOG, **_KEEP_SOCKET
            )
            self._servers.append(server)

    def _accept(self) -> _Side:
        connection = ClientConnection(self)
        self.connections.add(connection)
        made = connection.client.connection_made

        def accepted(transport: asyncio.BaseTransport) -> None:
            made(transport)
            self._tasks.create_task(connection.open())

        connection.client.connection_made = accepted  # type: ignore[method-assign]
        return connection.client

    def closed(self, connection: ClientConnection) -> None:
        """A connection has ended, and what was written has gone out."""
        self.connections.discard(connection)
        self.ended += 1
        if not self.connections:
            self._all_closed.set()

    def backend_away(self, error: OSError) -> None:
        """A connection to the backend could not be made."""
        reason = f"{self.backend_path}: {error.strerror or error}"
        if reason != self.backend_error:
            log.warning("runtime unreachable, closing client connections", backend=reason)
        self.backend_error = reason

    def backend_there(self) -> None:
        """A connection to the backend was made."""
        if self.backend_error:
            log.info("runtime connected", backend=self.backend_path)
            self.backend_returned()
        self.backend_error = ""

    async def drain(self, seconds: float) -> None:
        """Take no more clients, and let calls under way end, for so long.

        Calls that were on their way when their client was asked to go elsewhere
        are under way, too; see ``draining``.
        """
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.drain()
        self._all_closed.clear()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), seconds)
        for connection in list(self.connections):
            connection.close()
