"""Many writes at a time over one HTTP/2 connection: a tenth of what HTTP/1.1 costs a write."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import msgspec
from koord_model.version import VERSION
from koord_wire.frames import ProtocolError
from koord_wire.unary import Event, Headers, Response, UnaryConnection

from koord_kube.client import Cluster, content_type, notice_lost_peer
from koord_kube.failures import reason_of
from koord_kube.protocol.api import ApiError, NotLeadingError
from koord_kube.protocol.request import Request

_ENCODER = msgspec.json.Encoder()
_NO_BODY: Headers = ()
_RESENDS = 3
"""Number of repetitions of a write that the server says it did not process."""
_SHUTDOWN_SECONDS = 1.0
"""Time for the other end to close the connection; one that hangs never does."""


class _NotProcessedError(Exception):
    """The server did nothing of the request."""


class Http2UnsupportedError(ApiError):
    """The server speaks another protocol; nothing was sent to it."""


@dataclass(eq=False, slots=True)
class _Write:
    """One request, and who waits for its answer, ``since`` it left or was put into the queue."""

    request: Request
    target: bytes
    token: bytes
    answer: asyncio.Future[Response]
    since: float
    connection: _Connection | None = None
    stream: int = 0


class Http2Writer:
    """Sends writes to one API server. ``leads`` is asked for each at the moment it leaves.

    Writes that are made in one turn of the event loop leave together. Where the server allows no
    more at a time they wait, in order. A lost connection is made again with the next write; a write
    whose fate is not known fails, since it may have been processed.

    A connection on which nothing was answered for the whole time of a write counts as lost for
    those that come after: a server that hangs, or whose load balancer lost it, keeps TCP alive.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        leads: Callable[[], bool] = lambda: True,
        deadline: float = 10.0,
    ) -> None:
        """``deadline``: seconds for one write with all its waiting.

        Raises:
            ValueError: the cluster is not reached by TLS, or through a proxy.
        """
        if cluster.new_context is None or cluster.proxy:
            raise ValueError(f"{cluster.url}: HTTP/2 needs TLS and no proxy")
        self._cluster = cluster
        self._context = cluster.new_context()
        # With "h2" alone, servers that do not have it would end the handshake.
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        self._leads = leads
        self._deadline = deadline
        self._waiting: deque[_Write] = deque()
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._left: list[_Connection] = []
        """Connections that are not used any more, and have not ended yet."""

    async def write(self, request: Request) -> bytes:
        """Send a write and return the body of its answer.

        Raises:
            ApiError: it was refused, or there is no answer.
            Http2UnsupportedError: it was not sent, and never can be.
            NotLeadingError: it was not sent.
        """
        header = await self._cluster.credentials.header()
        response = await self._sent(request, header)
        if response.status == 401:
            header = await self._cluster.credentials.header(anew=True)
            response = await self._sent(request, header)
        if response.status < 300:
            self._cluster.backoff.succeeded()
            return response.body
        secret = header.rpartition(" ")[2]
        names = {name.title(): value for name, value in response.headers().items()}
        raise request.error_from(response.status, names, response.body, secret)

    async def close(self) -> None:
        """End the connection; writes under way fail."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        for connection in (self._connection, *self._left):
            if connection is not None:
                await connection.close()
        self._fail_waiting(OSError("the client was closed"))

    async def _sent(self, request: Request, header: str) -> Response:
        loop = asyncio.get_running_loop()
        target = (urlsplit(self._cluster.url).path + request.target).encode()
        end = loop.time() + self._deadline
        for _ in range(_RESENDS):
            write = _Write(request, target, header.encode(), loop.create_future(), loop.time())
            timer = loop.call_at(end, self._expire, write)
            try:
                self._waiting.append(write)
                self._pump()
                return await write.answer
            except _NotProcessedError:
                continue
            except (OSError, ProtocolError) as error:
                raise ApiError(f"{request}: {reason_of(error)}") from None
            finally:
                timer.cancel()
                self._abandon(write)
        raise ApiError(f"{request}: the server refused to process it {_RESENDS} times")

    def _expire(self, write: _Write) -> None:
        if write.answer.done():
            return
        write.answer.set_exception(TimeoutError())
        connection = write.connection or self._connection
        if connection is not None and connection.answered_at <= write.since:
            connection.retire()
            self._pump()

    def _abandon(self, write: _Write) -> None:
        """Nobody waits for it any more; mostly it has its answer."""
        if write.connection is not None:
            write.connection.cancel(write)
        elif write in self._waiting:
            self._waiting.remove(write)

    # ---- the connection

    def _pump(self) -> None:
        """Send what waits, as far as the server allows; connect where there is no connection."""
        connection = self._connection
        if connection is None or not connection.usable:
            if connection is not None:
                self._left = [other for other in (*self._left, connection) if not other.is_closed]
            self._connection = None
            if self._waiting and self._connecting is None:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        while self._waiting and connection.free:
            write = self._waiting.popleft()
            if write.answer.done():
                continue
            if not self._leads():
                message = f"{write.request}: not written, this program does not lead"
                write.answer.set_exception(NotLeadingError(message))
                continue
            connection.send(write)

    async def _connect(self) -> None:
        target = urlsplit(self._cluster.url)
        try:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(self._deadline):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._cluster, self._pump),
                    target.hostname or "",
                    target.port or 443,
                    ssl=self._context,
                    server_hostname=self._cluster.server_name or target.hostname,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self._connecting = None
            self._fail_waiting(OSError(reason_of(error)))
            return
        self._connecting = None
        if connection.speaks_http2:
            self._connection = connection
            self._pump()
        else:
            await connection.close()
            message = f"{self._cluster.url}: the server does not speak HTTP/2"
            self._fail_waiting(Http2UnsupportedError(message))

    def _fail_waiting(self, error: Exception) -> None:
        while self._waiting:
            write = self._waiting.popleft()
            if not write.answer.done():
                write.answer.set_exception(type(error)(str(error)))


class _Connection(asyncio.Protocol):
    """One connection, and the writes on it. ``on_room`` is called when more could be sent."""

    def __init__(self, cluster: Cluster, on_room: Callable[[], None]) -> None:
        agent = f"pykoord/{VERSION}".encode()
        others = ((name.lower().encode(), value.encode()) for name, value in cluster.headers)
        common = ((b"accept", b"application/json"), (b"user-agent", agent), *others)
        authority = urlsplit(cluster.url).netloc
        self._http2 = UnaryConnection(b"https", authority.encode(), common)
        self._on_room = on_room
        self._writes: dict[int, _Write] = {}
        self._transport: asyncio.Transport | None = None
        self._flushing = False
        self._closed = asyncio.get_running_loop().create_future()
        self.speaks_http2 = False
        self.answered_at = 0.0
        """Time of the connection or its last answer; seconds of the event loop's clock."""

    @property
    def usable(self) -> bool:
        return not self.is_closed and self._http2.usable

    @property
    def is_closed(self) -> bool:
        return self._closed.done()

    @property
    def free(self) -> int:
        return self._http2.free

    def send(self, write: _Write) -> None:
        request = write.request
        body, headers = b"", _NO_BODY
        if request.body is not None:
            body = _ENCODER.encode(request.body)
            headers = ((b"content-type", content_type(request).encode()),)
        write.stream = self._http2.request(
            request.method.encode(), write.target, body, write.token, headers
        )
        write.connection, write.since = self, asyncio.get_running_loop().time()
        self._writes[write.stream] = write
        self._flush_soon()

    def cancel(self, write: _Write) -> None:
        if self._writes.pop(write.stream, None) is not None:
            self._http2.cancel(write.stream)
            self._flush_soon()

    def retire(self) -> None:
        """Send nothing more on it; it is closed when its last write has ended."""
        self._http2.retire("no write was answered in time")
        self._flush_soon()

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            await self._closed

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._transport is not None and not self._transport.is_closing():
            output = self._http2.take_output()
            if output:
                self._transport.write(output)
            if not self._http2.usable and not self._http2.open_streams:
                self._transport.close()

    # ---- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.answered_at = asyncio.get_running_loop().time()
        notice_lost_peer(transport.get_extra_info("socket"))
        chosen = transport.get_extra_info("ssl_object")
        self.speaks_http2 = chosen is not None and chosen.selected_alpn_protocol() == "h2"
        if self.speaks_http2:
            self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._http2.receive(data)
        except ProtocolError as error:
            self._flush()
            self._lost(str(error))
            return
        if events:
            self.answered_at = asyncio.get_running_loop().time()
        for event in events:
            self._settle(event)
        self._on_room()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(reason_of(error) if error else "the server closed the connection")
        if not self._closed.done():
            self._closed.set_result(None)
        self._on_room()

    def _lost(self, reason: str) -> None:
        for event in self._http2.close(reason):
            self._settle(event)
        if self._transport is not None:
            self._transport.close()

    def _settle(self, event: Event) -> None:
        write = self._writes.pop(event.stream, None)
        if write is None or write.answer.done():
            return
        if isinstance(event, Response):
            write.answer.set_result(event)
        elif event.processed:
            write.answer.set_exception(OSError(event.reason))
        else:
            write.answer.set_exception(_NotProcessedError())
