"""A script of one relayed connection: ``>>`` what comes in, ``<<`` what must go out.

    assert (
        play
        >> Client(request)
        << Backend(request)
        >> Release(1)
        << ...
    )

Everything that goes out must be reported before the next thing comes in (``assert``
looks at the end), each side's in its order. ``cri_playbook`` and
``docker_playbook`` have what differs between the two sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from koord_proxy.contract.events import (
    CallAbandoned,
    CallEnded,
    RelaySession,
    RequestArrived,
    SessionEvent,
)


class Incoming(Protocol):
    def play(self, session: RelaySession) -> None: ...


class Client:
    """Bytes that come from the client (``>>``) or go to it (``<<``)."""

    def __init__(self, *parts: bytes) -> None:
        self.data = b"".join(parts)

    def play(self, session: RelaySession) -> None:
        session.receive_from_client(self.data)


class Backend:
    """Bytes that come from the backend (``>>``) or go to it (``<<``)."""

    def __init__(self, *parts: bytes) -> None:
        self.data = b"".join(parts)

    def play(self, session: RelaySession) -> None:
        session.receive_from_backend(self.data)


@dataclass(frozen=True)
class ClientEnds:
    """The client sends no more, after which the connection goes on or not."""

    goes_on: bool

    def play(self, session: RelaySession) -> None:
        assert session.client_eof() is self.goes_on


@dataclass(frozen=True)
class BackendEnds:
    """The same of the backend."""

    goes_on: bool

    def play(self, session: RelaySession) -> None:
        assert session.backend_eof() is self.goes_on


@dataclass(frozen=True)
class Release:
    stream: int
    message: bytes | None = None

    def play(self, session: RelaySession) -> None:
        session.release(self.stream, self.message)


@dataclass(frozen=True)
class Refuse:
    stream: int
    message: str = "no"

    def play(self, session: RelaySession) -> None:
        session.refuse(self.stream, self.message)


class Drain:
    def play(self, session: RelaySession) -> None:
        session.drain()


class Gone:
    """One side's connection is gone."""

    def play(self, session: RelaySession) -> None:
        session.abandon()


Outgoing = Client | Backend | RequestArrived | CallEnded | CallAbandoned


class Side(Protocol):
    """Output to one side that was not checked yet."""

    @property
    def left(self) -> object: ...

    def add(self, data: bytes) -> None: ...

    def take(self, expected: bytes) -> None: ...


class Playbook:
    """A session, and what is still to be checked."""

    session: RelaySession
    to_client: Side
    to_backend: Side

    def __init__(self) -> None:
        self.requests: list[SessionEvent] = []
        self._feed: Callable[[Incoming], None] = lambda event: event.play(self.session)

    def __rshift__(self, event: Incoming) -> Self:
        self._nothing_left()
        self._feed(event)
        self._collect()
        return self

    def __lshift__(self, expected: Outgoing) -> Self:
        if isinstance(expected, Client):
            self.to_client.take(expected.data)
        elif isinstance(expected, Backend):
            self.to_backend.take(expected.data)
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
        """What the backend sends goes on as it is, and nothing else happens."""
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
        self.to_backend.add(b"".join(session.to_backend))
        self.to_client.add(b"".join(session.to_client))
        self.requests += session.requests
        for given in (session.to_backend, session.to_client, session.requests):
            given.clear()

    def _nothing_left(self) -> None:
        left = {
            "to the client": self.to_client.left,
            "to the backend": self.to_backend.left,
            "requests": self.requests,
        }
        unreported = {name: things for name, things in left.items() if things}
        assert not unreported, f"not reported: {unreported}"
