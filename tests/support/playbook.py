"""A script of one relayed connection: ``>>`` what comes in, ``<<`` what must go out.

    assert (
        play
        >> Client(request)
        << Backend(request)
        >> Release(1)
        << ...
    )

Everything that goes out must be told before the next thing comes in (``assert``
looks at the end), each side's frames in their order. Both sides' header blocks
are decoded on the way, so compression that falls out of step shows by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import hpack
from koord_proxy.cri.session import Session
from koord_proxy.events import CallAbandoned, CallEnded, RequestArrived, Route, Tally, Treatment

from tests.support import frames
from tests.support.frames import ClientFrames, Frame, ServerFrames

TREATMENTS = {"/relay": Treatment.RELAY, "/watch": Treatment.WATCH, "/hold": Treatment.HOLD}


class Incoming(Protocol):
    def play(self, session: Session) -> None: ...


class Client:
    """Bytes that come from the client (``>>``) or go to it (``<<``)."""

    def __init__(self, *parts: bytes) -> None:
        self.data = b"".join(parts)

    def play(self, session: Session) -> None:
        session.receive_from_client(self.data)


class Backend:
    """Bytes that come from the backend (``>>``) or go to it (``<<``)."""

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
    status: int = 14
    message: str = "no"

    def play(self, session: Session) -> None:
        session.refuse(self.stream, self.message, self.status)


class Drain:
    def play(self, session: Session) -> None:
        session.drain()


class Gone:
    """One side's connection is gone."""

    def play(self, session: Session) -> None:
        session.abandon()


@dataclass(frozen=True)
class Failed:
    """The session gave up: it says so, and the client is told with a GOAWAY."""

    code: int


Outgoing = Client | Backend | RequestArrived | CallEnded | CallAbandoned | Failed


class Side:
    """What goes out to one side and was not told yet; header blocks are read on the way."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.headers: dict[int, list[list[tuple[str, str]]]] = {}
        """Header blocks that went out, by stream."""
        self.decoder = hpack.Decoder()
        self._block: tuple[int, bytearray] | None = None

    def add(self, data: bytes) -> None:
        found, rest = frames.read_frames(data)
        assert not rest, "a frame was sent in pieces"
        for frame in found:
            self._follow(frame)
        self.frames += found

    def take(self, expected: bytes) -> None:
        wanted, rest = frames.read_frames(expected)
        assert not rest, "the expectation is no whole frames"
        got = self.frames[: len(wanted)]
        assert got == wanted, f"wanted {wanted}\n   got {got}"
        del self.frames[: len(wanted)]

    def _follow(self, frame: Frame) -> None:
        if self._block is not None:
            assert frame.kind == frames.CONTINUATION, f"{frame} inside a header block"
            assert frame.stream == self._block[0]
            self._block[1].extend(frame.payload)
        elif frame.kind in (frames.HEADERS, frames.PUSH_PROMISE):
            self._block = (frame.stream, bytearray(_fragment(frame)))
        if self._block is not None and frame.flags & frames.END_HEADERS:
            stream, block = self._block
            self._block = None
            fields = [(str(name), str(value)) for name, value in self.decoder.decode(bytes(block))]
            self.headers.setdefault(stream, []).append(fields)


class Playbook:
    """A session, two peers' factories, and what is still to be told."""

    def __init__(
        self,
        treatments: Mapping[str, Treatment] = TREATMENTS,
        *,
        handshake: bool = True,
        settings: Mapping[int, int] | None = None,
        client_settings: Mapping[int, int] | None = None,
    ) -> None:
        """``settings`` are the backend's first; with the handshake both sides know the other's."""
        self.tallies = {path: Tally() for path in treatments}
        self.session = Session(
            lambda path: Route(treatments[path], self.tallies[path], path.strip("/"))
        )
        self.client = ClientFrames()
        self.server = ServerFrames()
        self.to_client = Side()
        self.to_backend = Side()
        self.requests: list[object] = []
        self._feed: Callable[[Incoming], None] = lambda event: event.play(self.session)
        self._preface_seen = False
        if handshake:
            hello = self.client.settings(client_settings)
            ack = self.client.settings_ack()
            assert (
                self
                >> Client(frames.PREFACE, hello)
                << Backend(hello)
                >> Backend(self.server.settings(settings), ack)
                << Client(self.server.settings(settings), ack)
                >> Client(ack)
                << Backend(ack)
            )

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
        elif isinstance(expected, Failed):
            self._take_failure(expected)
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
        to_backend = b"".join(session.to_backend)
        if to_backend and not self._preface_seen:
            assert to_backend.startswith(frames.PREFACE)
            to_backend = to_backend.removeprefix(frames.PREFACE)
            self._preface_seen = True
        self.to_backend.add(to_backend)
        self.to_client.add(b"".join(session.to_client))
        self.requests += session.requests
        for given in (session.to_backend, session.to_client, session.requests):
            given.clear()

    def _take_failure(self, expected: Failed) -> None:
        assert self.session.failed is not None
        assert self.session.failed.code == expected.code
        assert self.to_client.frames, "the client was not told"
        goaway = self.to_client.frames.pop(0)
        assert goaway.kind == frames.GOAWAY
        assert int.from_bytes(goaway.payload[4:8], "big") == expected.code
        assert goaway.payload[8:].decode() == str(self.session.failed)

    def _nothing_left(self) -> None:
        left = {
            "to the client": self.to_client.frames,
            "to the backend": self.to_backend.frames,
            "requests": self.requests,
        }
        untold = {name: things for name, things in left.items() if things}
        assert not untold, f"not told: {untold}"


def arrived(stream: int, content: bytes, *, method: str = "hold") -> RequestArrived:
    """The request that a held or watched call turns into."""
    return RequestArrived(stream, method, content, method == "hold")


def cut(data: bytes, size: int) -> Iterable[bytes]:
    """Some bytes in pieces of a size."""
    return (data[start : start + size] for start in range(0, len(data), size))


def _fragment(frame: Frame) -> bytes:
    payload = frame.payload
    if frame.flags & frames.PADDED:
        payload = payload[1 : len(payload) - payload[0]]
    if frame.kind == frames.PUSH_PROMISE:
        return payload[4:]
    return payload[5:] if frame.flags & frames.PRIORITISED else payload
