"""One client connection and its connection to the engine, as a machine without IO.

Bytes and decisions go in; bytes for either side and requests to the shell come out.
Bytes go on verbatim and in order, with these exceptions:

* The head of a request waits until it is complete, and all of a held request until
  the shell releases or refuses it. The session itself tells a client that waits for
  it that the body of a held request is welcome.
* Requests that a client sends ahead wait until it is their turn: the engine, too,
  takes one after the other.
* A refused request is answered here, and the engine hears nothing of it.
* So is one that cannot be parsed, and its connection ends: the engine is more lenient, and
  might find a call in it that hooks are due for.

A connection that both sides took out of HTTP (an attached terminal) is a tunnel: bytes
both ways.
"""

from __future__ import annotations

from collections.abc import Callable

from koord_proxy.contract.events import (
    MAX_MESSAGE,
    CallAbandoned,
    CallEnded,
    RequestArrived,
    Route,
    SessionEvent,
    Tally,
    Treatment,
)
from koord_proxy.docker.http_messages import (
    CONTINUE,
    BodyCopy,
    EngineRequest,
    EngineResponse,
    HttpMessageError,
    error_response,
    with_length,
    without_expect,
)
from koord_proxy.docker.targets import REMOVE, STOP

MAX_RESPONSE = 1 << 20
"""Bytes of a response that are read; those of intercepted calls are tiny."""

SHOWN = 200
"""Characters of a target that are logged."""
NOT_FOUND_IS_SUCCESS = frozenset((STOP, REMOVE))
"""Calls that succeed if there is nothing of that name."""


class EngineError(Exception):
    """The engine said what it cannot mean; the message is one line."""


class TooLargeError(Exception):
    """A request is larger than what is held; the message is one line."""


class BadRequestError(Exception):
    """A request cannot be parsed; the message is one line."""


class Exchange:
    """A request, from its first byte on, and its response."""

    __slots__ = (
        "flows",
        "kept",
        "method",
        "reported",
        "request",
        "response",
        "stream",
        "tally",
        "target",
        "treatment",
    )

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.request = EngineRequest()
        self.kept: list[bytes] = []
        """Bytes of the request that were read and not sent on."""
        self.flows = False
        """The request goes on, as it comes."""
        self.reported = False
        """The shell knows of it, and expects its end."""
        # These count once the request's head is complete.
        self.treatment = Treatment.RELAY
        self.tally = Tally()
        self.method = self.target = ""
        self.response: EngineResponse | None = None

    def next_response(self) -> None:
        """Begin to read a response, the final one or an interim one."""
        relayed = self.treatment is Treatment.RELAY
        self.response = EngineResponse(
            self.request.method, None if relayed else BodyCopy(MAX_RESPONSE)
        )

    def outcome(self, response: EngineResponse) -> bytes | None:
        """Content of a response that means success; None of any other."""
        status = response.status
        gone = status == 404 and self.method in NOT_FOUND_IS_SUCCESS
        # 304: it was started, or stopped, before.
        if not (200 <= status < 300 or status == 304 or gone):
            return None
        copy = response.body.copy if response.body is not None else None
        return b"" if copy is None else bytes(copy.content)


class DockerSession:
    """The relay between one client and the engine.

    See ``events.Session`` for its use. Counted are requests whose head is complete,
    and all bytes of requests and responses, heads, framing and tunnels included.
    """

    def __init__(self, route: Callable[[str], Route]) -> None:
        self.to_client: list[bytes] = []
        self.to_backend: list[bytes] = []
        self.requests: list[SessionEvent] = []
        self.failed: EngineError | TooLargeError | BadRequestError | None = None
        self.eof_to_client = self.eof_to_backend = False
        self._route = route
        self._streams = 0
        self._exchange: Exchange | None = None
        self._waiting = b""
        """Bytes that the client sent ahead."""
        self._tunnel: Tally | None = None
        """Bytes both ways from here on, and where they are counted."""
        self._last = False
        """No request is begun any more."""
        self._client_ended = False

    # ---- what the shell calls

    @property
    def stalled(self) -> bool:
        """Requests that were sent ahead wait: stop reading from the client."""
        return bool(self._waiting)

    @property
    def busy(self) -> bool:
        """An exchange or a tunnel is under way."""
        return self._exchange is not None or self._tunnel is not None

    @property
    def drained(self) -> bool:
        """The client's connection may be closed: nothing is under way, and nothing will be."""
        return self._last and not self.busy

    def receive_from_client(self, data: bytes) -> None:
        """Bytes came from the client."""
        if self.failed:
            return
        if self._tunnel is not None:
            self._tunnel.from_client += len(data)
            self.to_backend.append(data)
        elif self._waiting:
            self._waiting += data
        else:
            self._take_requests(data)

    def receive_from_backend(self, data: bytes) -> None:
        """Bytes came from the engine."""
        position = 0
        try:
            while position < len(data) and self._tunnel is None and not self.failed:
                position = self._take_response(data, position)
        except HttpMessageError as error:
            # The client may make more of it; but what it asks next would be asked unread.
            self.to_client.append(data[position:])
            self._fail(EngineError(f"the engine's answer cannot be parsed: {error}"))
        if self._tunnel is not None and position < len(data):
            self._tunnel.from_backend += len(data) - position
            self.to_client.append(data[position:])

    def client_eof(self) -> bool:
        """The client sends no more; whether the connection goes on.

        It does not where nothing is asked of the engine: then the client has gone.
        """
        self._client_ended = self._flows and not self.failed
        self._pass_eof()
        return self._client_ended

    def backend_eof(self) -> bool:
        """The engine sends no more; whether the connection goes on."""
        self.eof_to_client = self._tunnel is not None
        return self.eof_to_client

    def release(self, stream: int, message: bytes | None = None) -> None:
        """Send a held request on: as it came, or with this body in its place.

        Nothing happens if the exchange is over.
        """
        exchange = self._decided(stream)
        if exchange is None:
            return
        kept = b"".join(exchange.kept)
        size = exchange.request.head_size
        head, body = kept[:size], kept[size:]
        if message is not None:
            head, body = with_length(head, len(message)), message
        elif exchange.request.expects_continue:
            # It got its 100 Continue.
            head = without_expect(head)
        exchange.kept = [head + body]
        self._send_on(exchange)
        self._pass_eof()

    def refuse(self, stream: int, message: str) -> None:
        """Answer a held request with an error; nothing happens if the exchange is over."""
        exchange = self._decided(stream)
        if exchange is None:
            return
        request = exchange.request
        self._last |= request.last
        self.to_client.append(
            error_response("503 Service Unavailable", message, request.method, last=self._last)
        )
        self._next_exchange()

    def drain(self) -> None:
        """Take no request any more after the one that has begun."""
        self._last = True

    def cut_off(self) -> None:
        """HTTP/1.1 has no message that asks a client to leave, so there is nothing to end."""

    def abandon(self) -> None:
        """One side is gone: the exchange under way is over."""
        if self._exchange is not None:
            self._end_call(self._exchange, None)
            self._exchange = None
        self._waiting = b""

    # ---- from the client

    def _take_requests(self, data: bytes) -> None:
        """Take what the client sends, up to where it has to wait for a response."""
        position = 0
        try:
            while position < len(data) and not self.failed:
                exchange = self._exchange or self._begin()
                if exchange is None or exchange.request.complete:
                    self._waiting = data[position:]
                    break
                end = exchange.request.take(data, position)
                self._took(exchange, data[position:end])
                position = end
        except HttpMessageError as error:
            self._refuse_unparsed(error)
        self._pass_eof()

    def _begin(self) -> Exchange | None:
        """Begin an exchange, if that is still allowed."""
        if not self._last:
            self._streams += 1
            self._exchange = Exchange(self._streams)
        return self._exchange

    def _took(self, exchange: Exchange, data: bytes) -> None:
        """Do with a part of a request as is done with the request."""
        request = exchange.request
        exchange.tally.from_client += len(data)
        (self.to_backend if exchange.flows else exchange.kept).append(data)
        if request.body is None:
            return
        head_due = exchange.response is None
        if head_due:
            self._head_complete(exchange)
        held = exchange.treatment is Treatment.HOLD
        if held and request.body.size > MAX_MESSAGE:
            self._refuse_large(exchange)
        elif request.complete:
            self._request_complete(exchange)
        elif held and head_due and request.expects_continue:
            self.to_client.append(CONTINUE)

    def _head_complete(self, exchange: Exchange) -> None:
        request = exchange.request
        exchange.target = f"{request.method} {request.target}"
        exchange.treatment, exchange.tally, exchange.method, _ = self._route(exchange.target)
        exchange.tally.calls += 1
        exchange.tally.from_client += request.head_size
        exchange.next_response()
        if exchange.treatment is not Treatment.RELAY and request.body is not None:
            request.body.copy = BodyCopy(MAX_MESSAGE)
        if exchange.treatment is not Treatment.HOLD:
            self._send_on(exchange)

    def _send_on(self, exchange: Exchange) -> None:
        """Send what is kept of a request on, and what still comes of it."""
        exchange.flows = True
        self.to_backend += exchange.kept
        exchange.kept = []

    def _request_complete(self, exchange: Exchange) -> None:
        body = exchange.request.body
        copy = body.copy if body is not None else None
        if copy is not None:
            message = bytes(copy.content) if copy.whole else None
            problem = "" if copy.whole else f"it is larger than {MAX_MESSAGE} bytes"
            exchange.reported = True
            held = exchange.treatment is Treatment.HOLD
            self.requests.append(
                RequestArrived(
                    exchange.stream, exchange.method, message, held, problem, exchange.target
                )
            )
        self._end_if_over(exchange)

    # ---- from the engine

    def _take_response(self, data: bytes, start: int) -> int:
        """Take what belongs to the response that is due; returns where that ends."""
        due = self._due()
        if due is None:
            # Whatever it answers is not what it is asked next.
            self.to_client.append(data[start:])
            self._fail(EngineError("the engine answered what it was not asked"))
            return len(data)
        exchange, response = due
        end = response.take(data, start)
        exchange.tally.from_backend += end - start
        self.to_client.append(data[start:end])
        if response.endless:
            self._end_call(exchange, exchange.outcome(response))
            self._leave_http()
        elif response.complete and response.interim:
            exchange.next_response()
        elif response.complete:
            self._end_if_over(exchange)
        return end

    def _due(self) -> tuple[Exchange, EngineResponse] | None:
        """The response that the engine owes, to what; None if it owes none."""
        exchange = self._exchange
        response = exchange.response if exchange is not None else None
        if exchange is None or response is None or response.complete or not exchange.flows:
            return None
        return exchange, response

    # ---- ends

    def _end_if_over(self, exchange: Exchange) -> None:
        """End an exchange of which both halves are complete.

        An engine may answer before it has the whole request. It gets the rest as well.
        """
        response = exchange.response
        if response is not None and response.complete and exchange.request.complete:
            self._end_call(exchange, exchange.outcome(response))
            self._next_exchange()

    def _end_call(self, exchange: Exchange, response: bytes | None) -> None:
        """Tell the shell what became of a call it knows of."""
        if exchange.reported:
            exchange.reported = False
            ended = CallEnded(exchange.stream, response)
            self.requests.append(ended if exchange.flows else CallAbandoned(exchange.stream))

    def _next_exchange(self) -> None:
        """The one before is over: go on with what the client sent ahead."""
        self._exchange = None
        waiting, self._waiting = self._waiting, b""
        self._take_requests(waiting)

    def _leave_http(self) -> None:
        """Both sides' bytes go on as they come, beginning with those that wait here."""
        exchange, self._exchange = self._exchange, None
        self._tunnel = Tally() if exchange is None else exchange.tally
        if exchange is not None:
            self._end_call(exchange, None)
            self.to_backend += exchange.kept
        if self._waiting:
            self._tunnel.from_client += len(self._waiting)
            self.to_backend.append(self._waiting)
            self._waiting = b""
        self._pass_eof()

    @property
    def _flows(self) -> bool:
        """True if the client's bytes go on to the engine at once."""
        return self._tunnel is not None or (self._exchange is not None and self._exchange.flows)

    def _pass_eof(self) -> None:
        """Tell the engine that the client sends no more, once it has all that it sent."""
        if not self._client_ended or self._waiting:
            return
        exchange = self._exchange
        if self._flows:
            self.eof_to_backend = True
        elif exchange is None or not exchange.request.complete:
            # All is answered, but for a request that will never be complete.
            self._exchange = None
            self._last = True

    def _refuse_large(self, exchange: Exchange) -> None:
        message = (
            "koord-runtime-proxy: the request is larger than what is held "
            f"({MAX_MESSAGE} bytes a message)"
        )
        method = exchange.request.method
        self.to_client.append(error_response("413 Content Too Large", message, method, last=True))
        self._fail(TooLargeError(f"{exchange.target[:SHOWN]}: {message}"))

    def _refuse_unparsed(self, error: HttpMessageError) -> None:
        message = f"koord-runtime-proxy: the request cannot be parsed as HTTP/1.1: {error}"
        response = self._exchange.response if self._exchange is not None else None
        if response is None or not response.head_size:
            self.to_client.append(error_response("400 Bad Request", message, "", last=True))
        self._fail(BadRequestError(message))

    def _fail(self, error: EngineError | TooLargeError | BadRequestError) -> None:
        self.failed = error
        self.abandon()

    def _decided(self, stream: int) -> Exchange | None:
        """The exchange that a decision is about, if it waits for one."""
        exchange = self._exchange
        if exchange is None or exchange.stream != stream:
            return None
        return exchange if exchange.reported and not exchange.flows else None
