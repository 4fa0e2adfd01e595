"""Many writes at a time over one HTTP/2 connection: a tenth of what HTTP/1.1 costs a write."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import cast
from urllib.parse import urlsplit

from koord_model.version import VERSION
from koord_wire.frames import ProtocolError
from koord_wire.unary import Event, Headers, Response, UnaryConnection

from koord_kube.answers import Answer, Settle, answer_of
from koord_kube.client import Cluster, content_type, notice_lost_peer
from koord_kube.failures import reason_of
from koord_kube.protocol.api import ApiError, InvalidRequestError, NotLeadingError
from koord_kube.protocol.request import Request

_NO_BODY: Headers = ()
_SENDS = 3
"""Number of times a write is sent that the server says it did not process."""
_HEADER_SECONDS = 10.0
"""Time for which the authorization header is used, before the credentials are asked again."""
_SHUTDOWN_SECONDS = 1.0
"""Time for the other end to close the connection; one that hangs never does."""


class Http2UnsupportedError(ApiError):
    """The server speaks another protocol; nothing was sent to it."""


@dataclass(eq=False, slots=True)
class PendingWrite:
    """One request, and who gets its answer, ``since`` it left or was put into the queue."""

    writer: Http2Writer
    request: Request
    settle: Settle
    end: float
    since: float
    header: str = ""
    sent: int = 0
    token_refused: bool = False
    connection: _Connection | None = None
    stream: int = 0

    def cancel(self) -> None:
        """Take it back: it gets no answer any more."""
        self.writer.withdraw(self)


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
        self._base_path = urlsplit(cluster.url).path
        self._context = cluster.new_context()
        # With "h2" alone, servers that do not have it would end the handshake.
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        self._leads = leads
        self._deadline = deadline
        self._header = ""
        self._header_until = 0.0
        self._header_refused = False
        self._unsettled: dict[PendingWrite, None] = {}
        """In the order in which their time is over."""
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[PendingWrite] = deque()
        self._connection: _Connection | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._left: list[_Connection] = []
        """Connections that are not used any more, and have not ended yet."""
        self._is_closed = False

    def submit(self, request: Request, settle: Settle) -> PendingWrite:
        """Send a write, and have ``settle`` called with its answer, later and once.

        ``settle`` must not raise. Nobody has to wait: thousands of these a second need no task,
        no future and no timer each.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        write = PendingWrite(self, request, settle, now + self._deadline, now)
        self._unsettled[write] = None
        if self._timer is None:
            self._timer = loop.call_at(write.end, self._expire, write.end)
        self._waiting.append(write)
        self._pump()
        return write

    async def write(self, request: Request) -> bytes:
        """Send a write and return the body of its answer.

        Raises:
            ApiError: it was refused, or there is no answer.
            Http2UnsupportedError: it was not sent, and never can be.
            NotLeadingError: it was not sent.
        """
        return await answer_of(self.submit, request)

    def withdraw(self, write: PendingWrite) -> None:
        """Nobody waits for a write any more; nothing happens if it has its answer."""
        if write not in self._unsettled:
            return
        del self._unsettled[write]
        if write.connection is not None:
            write.connection.cancel(write)
        elif write in self._waiting:
            self._waiting.remove(write)

    async def close(self) -> None:
        """End the connection; writes under way fail."""
        self._is_closed = True
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.gather(self._preparing, return_exceptions=True)
        for connection in (self._connection, *self._left):
            if connection is not None:
                await connection.close()
        self._pump()
        if self._timer is not None:
            self._timer.cancel()

    # ---- answers

    def _settle(self, write: PendingWrite, answer: Answer) -> None:
        if write in self._unsettled:
            del self._unsettled[write]
            write.settle(answer)

    def _settle_soon(self, write: PendingWrite, answer: Answer) -> None:
        """Not within ``submit``: who is called there may submit the next."""
        asyncio.get_running_loop().call_soon(self._settle, write, answer)

    def _ended(self, write: PendingWrite, event: Event) -> None:
        """Take what a connection says of a write."""
        write.connection = None
        if isinstance(event, Response):
            self._answered(write, event)
        elif event.processed:
            self._settle(write, ApiError(f"{write.request}: {event.reason}"))
        elif write.sent < _SENDS:
            self._waiting.append(write)
        else:
            reason = f"the server refused to process it {_SENDS} times"
            self._settle(write, ApiError(f"{write.request}: {reason}"))

    def _answered(self, write: PendingWrite, response: Response) -> None:
        if response.status < 300:
            self._cluster.backoff.succeeded()
            self._settle(write, response.body)
        elif response.status == 401 and not write.token_refused:
            write.token_refused = True
            if write.header == self._header:
                self._header_refused = True
            self._waiting.append(write)
        else:
            self._settle(write, _refusal(write, response))

    def _expire(self, now: float) -> None:
        loop = asyncio.get_running_loop()
        now = max(now, loop.time())
        for write in list(takewhile(lambda write: write.end <= now, self._unsettled)):
            self._time_is_over(write)
        # Those that were submitted meanwhile are the last.
        first = next(iter(self._unsettled), None)
        self._timer = loop.call_at(first.end, self._expire, first.end) if first else None

    def _time_is_over(self, write: PendingWrite) -> None:
        connection = write.connection or self._connection
        self.withdraw(write)
        write.settle(ApiError(f"{write.request}: {reason_of(TimeoutError())}"))
        if connection is not None and connection.answered_at <= write.since:
            connection.retire()
            self._pump()

    # ---- the connection

    def _pump(self) -> None:
        """Send what waits, as far as the server allows; connect where there is no connection."""
        if not self._waiting:
            return
        if self._is_closed:
            asyncio.get_running_loop().call_soon(self._fail_waiting, "the client was closed")
            return
        connection = self._usable_connection()
        if connection is None or self._has_old_header():
            if self._preparing is None:
                self._preparing = asyncio.get_running_loop().create_task(self._prepare())
            return
        while self._waiting and connection.free:
            self._send(self._waiting.popleft(), connection)

    def _send(self, write: PendingWrite, connection: _Connection) -> None:
        if not self._leads():
            message = f"{write.request}: not written, this program does not lead"
            self._settle_soon(write, NotLeadingError(message))
            return
        try:
            target = (self._base_path + write.request.target).encode()
        except InvalidRequestError as error:
            self._settle_soon(write, error)
            return
        write.sent += 1
        write.header = self._header
        connection.send(write, target)

    def _usable_connection(self) -> _Connection | None:
        connection = self._connection
        if connection is not None and not connection.usable:
            self._left = [left for left in (*self._left, connection) if not left.is_closed]
            connection = self._connection = None
        return connection

    def _has_old_header(self) -> bool:
        return self._header_refused or asyncio.get_running_loop().time() >= self._header_until

    async def _prepare(self) -> None:
        """Have a valid header and a connection; without them all that waits fails."""
        failure = ""
        try:
            async with asyncio.timeout(self._deadline):
                await self._renew_header()
                if self._connection is None:
                    self._connection = await self._connect()
        except Http2UnsupportedError as error:
            self._preparing = None
            self._fail_waiting(str(error), Http2UnsupportedError)
            return
        except (OSError, ssl.SSLError, TimeoutError) as error:
            failure = reason_of(error)
        self._preparing = None
        if failure:
            self._fail_waiting(failure)
        else:
            self._pump()

    async def _renew_header(self) -> None:
        if self._has_old_header():
            anew, self._header_refused = self._header_refused, False
            self._header = await self._cluster.credentials.header(anew=anew)
            self._header_until = asyncio.get_running_loop().time() + _HEADER_SECONDS

    async def _connect(self) -> _Connection:
        target = urlsplit(self._cluster.url)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._cluster, self._ended, self._pump),
            target.hostname or "",
            target.port or 443,
            ssl=self._context,
            server_hostname=self._cluster.server_name or target.hostname,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        if connection.speaks_http2:
            return connection
        await connection.close()
        raise Http2UnsupportedError(f"{self._cluster.url}: the server does not speak HTTP/2")

    def _fail_waiting(self, reason: str, kind: type[ApiError] = ApiError) -> None:
        failed, self._waiting = self._waiting, deque()
        for write in failed:
            # The server, not the write, is what has no HTTP/2.
            unsupported = kind is Http2UnsupportedError
            self._settle(write, kind(reason if unsupported else f"{write.request}: {reason}"))


def _refusal(write: PendingWrite, response: Response) -> ApiError:
    secret = write.header.rpartition(" ")[2]
    try:
        names = {name.title(): value for name, value in response.headers().items()}
    except ProtocolError as error:
        return ApiError(f"{write.request}: {reason_of(error)}")
    return write.request.error_from(response.status, names, response.body, secret)


class _Connection(asyncio.Protocol):
    """One connection, and the writes on it, each of which ends once.

    ``on_room`` is called when more could be sent.
    """

    def __init__(
        self,
        cluster: Cluster,
        on_end: Callable[[PendingWrite, Event], None],
        on_room: Callable[[], None],
    ) -> None:
        agent = f"pykoord/{VERSION}".encode()
        others = ((name.lower().encode(), value.encode()) for name, value in cluster.headers)
        common = ((b"accept", b"application/json"), (b"user-agent", agent), *others)
        authority = urlsplit(cluster.url).netloc
        self._http2 = UnaryConnection(b"https", authority.encode(), common)
        self._on_end = on_end
        self._on_room = on_room
        self._writes: dict[int, PendingWrite] = {}
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

    def send(self, write: PendingWrite, target: bytes) -> None:
        request = write.request
        body = request.payload
        headers = ((b"content-type", content_type(request).encode()),) if body else _NO_BODY
        write.stream = self._http2.request(
            request.method.encode(), target, body, write.header.encode(), headers
        )
        write.connection, write.since = self, asyncio.get_running_loop().time()
        self._writes[write.stream] = write
        self._flush_soon()

    def cancel(self, write: PendingWrite) -> None:
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
            self._end(event)
        self._on_room()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(reason_of(error) if error else "the server closed the connection")
        if not self._closed.done():
            self._closed.set_result(None)
        self._on_room()

    def _lost(self, reason: str) -> None:
        for event in self._http2.close(reason):
            self._end(event)
        if self._transport is not None:
            self._transport.close()

    def _end(self, event: Event) -> None:
        write = self._writes.pop(event.stream, None)
        if write is not None:
            self._on_end(write, event)
