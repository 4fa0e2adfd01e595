"""A script of one relayed HTTP/1.1 connection: ``>>`` what comes in, ``<<`` what must go out.

    assert (
        play
        >> Client(request)
        << arrived(1, b"{}")
        >> Release(1)
        << Backend(request)
    )

As in ``playbook``, everything that goes out must be told before the next thing
comes in. Bytes are bytes here: each side's are told in their order, in any portions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from koord_proxy.docker.session import Session
from koord_proxy.events import Request, RequestArrived, Route, Tally, Treatment

TREATMENTS = {"relay": Treatment.RELAY, "watch": Treatment.WATCH, "hold": Treatment.HOLD}
PING = b"GET /relay/ping HTTP/1.1\r\nHost: docker\r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Incoming(Protocol):
    def play(self, session: Session) -> None: ...


class Client:
    """Bytes that come from the client (``>>``) or go to it (``<<``)."""

    def __init__(self, *parts: bytes) -> None:
        self.data = b"".join(parts)

    def play(self, session: Session) -> None:
        session.receive_from_client(self.data)


class Backend:
    """Bytes that come from the engine (``>>``) or go to it (``<<``)."""

    def __init__(self, *parts: bytes) -> None:
        self.data = b"".join(parts)

    def play(self, session: Session) -> None:
        session.receive_from_backend(self.data)


@dataclass(frozen=True)
class Release:
    stream: int
    message: bytes | None = None

    def play(self, session: Session) -> None:
        session.release(self.stream, self.message)


@dataclass(frozen=True)
class Refuse:
    stream: int
    message: str = "no"

    def play(self, session: Session) -> None:
        session.refuse(self.stream, self.message)


@dataclass(frozen=True)
class ClientEnds:
    """The client sends no more, after which the connection goes on or not."""

    goes_on: bool

    def play(self, session: Session) -> None:
        assert session.client_eof() is self.goes_on


@dataclass(frozen=True)
class BackendEnds:
    """The same of the engine."""

    goes_on: bool

    def play(self, session: Session) -> None:
        assert session.backend_eof() is self.goes_on


class Drain:
    def play(self, session: Session) -> None:
        session.drain()


class Gone:
    """One side's connection is gone."""

    def play(self, session: Session) -> None:
        session.abandon()


Outgoing = Client | Backend | Request


class Playbook:
    """A session and what is still to be told.

    A target's first segment is how it is treated, its last the name of the call.
    """

    def __init__(self) -> None:
        self.tally = Tally()
        self.session = Session(self.route)
        self.to_client = b""
        self.to_backend = b""
        self.requests: list[Request] = []
        self._feed: Callable[[Incoming], None] = lambda event: event.play(self.session)

    def route(self, target: str) -> Route:
        path = target.split(" ")[1].strip("/").split("/")
        return Route(TREATMENTS[path[0]], self.tally, path[-1])

    def __rshift__(self, event: Incoming) -> Self:
        self._nothing_left()
        self._feed(event)
        self._collect()
        return self

    def __lshift__(self, expected: Outgoing) -> Self:
        if isinstance(expected, Client):
            self.to_client = _taken(self.to_client, expected.data)
        elif isinstance(expected, Backend):
            self.to_backend = _taken(self.to_backend, expected.data)
        else:
            got = self.requests[:1]
            assert got == [expected], f"wanted {expected}\n   got {got}"
            del self.requests[0]
        return self

    def __bool__(self) -> bool:
        self._nothing_left()
        return True

    def relays(self, *parts: bytes) -> Self:
        """What the client sends goes on as it is, and nothing else happens."""
        return self >> Client(*parts) << Backend(*parts)

    def answers(self, *parts: bytes) -> Self:
        """What the engine sends goes on as it is, and nothing else happens."""
        return self >> Backend(*parts) << Client(*parts)

    def byte_by_byte(self) -> Self:
        """From here on what comes in comes in single bytes."""

        def feed(event: Incoming) -> None:
            if isinstance(event, Client | Backend):
                for byte in event.data:
                    type(event)(bytes((byte,))).play(self.session)
            else:
                event.play(self.session)

        self._feed = feed
        return self

    def _collect(self) -> None:
        session = self.session
        self.to_client += b"".join(session.to_client)
        self.to_backend += b"".join(session.to_backend)
        self.requests += session.requests
        for given in (session.to_backend, session.to_client, session.requests):
            given.clear()

    def _nothing_left(self) -> None:
        left = {
            "to the client": self.to_client,
            "to the engine": self.to_backend,
            "requests": self.requests,
        }
        untold = {name: things for name, things in left.items() if things}
        assert not untold, f"not told: {untold}"


def post(target: str, body: bytes = b"", *fields: str) -> bytes:
    """A POST whose body, if there is any, has a length."""
    length = (f"Content-Length: {len(body)}",) if body else ()
    lines = (f"POST {target} HTTP/1.1", "Host: docker", *fields, *length)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def answer(status: int, body: bytes = b"", *fields: str) -> bytes:
    """A response whose body has a length."""
    lines = (f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *fields)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def chunked(*chunks: bytes, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    """A body in chunks, each with the same extension."""
    parts = [b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks]
    return b"".join((*parts, b"0", extension, b"\r\n", trailers, b"\r\n"))


def arrived(stream: int, target: str, body: bytes | None, problem: str = "") -> RequestArrived:
    """The request that a held or watched POST turns into."""
    held = target.startswith("/hold")
    method = target.rpartition("/")[2]
    return RequestArrived(stream, method, body, held, problem, f"POST {target}")


def _taken(got: bytes, wanted: bytes) -> bytes:
    assert got[: len(wanted)] == wanted, f"wanted {wanted!r}\n   got {got[:500]!r}"
    return got[len(wanted) :]
