"""A script of one relayed HTTP/2 connection (see ``playbook``), written in whole frames.

Both sides' header blocks are decoded on the way, so compression that falls out of
step shows by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import hpack
from koord_proxy.contract.events import RelaySession, RequestArrived, Route, Tally, Treatment
from koord_proxy.cri.session import CriSession

from tests.support import frames, playbook
from tests.support.frames import ClientFrames, Frame, ServerFrames
from tests.support.playbook import Backend, Client, Outgoing

TREATMENTS = {"/relay": Treatment.RELAY, "/watch": Treatment.WATCH, "/hold": Treatment.HOLD}


@dataclass(frozen=True)
class Refuse:
    stream: int
    status: int = 14
    message: str = "no"

    def play(self, session: RelaySession) -> None:
        assert isinstance(session, CriSession)
        session.refuse(self.stream, self.message, self.status)


@dataclass(frozen=True)
class Failed:
    """The session gave up: it says so, and the client gets a GOAWAY."""

    code: int


class Side:
    """Output to one side that was not checked yet; header blocks are read on the way."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.headers: dict[int, list[list[tuple[str, str]]]] = {}
        """Header blocks that went out, by stream."""
        self.decoder = hpack.Decoder()
        self._block: tuple[int, bytearray] | None = None

    @property
    def left(self) -> list[Frame]:
        return self.frames

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


class Playbook(playbook.Playbook):
    """A session, two peers' factories, and what is still to be checked."""

    def __init__(
        self,
        treatments: Mapping[str, Treatment] = TREATMENTS,
        *,
        handshake: bool = True,
        settings: Mapping[int, int] | None = None,
        client_settings: Mapping[int, int] | None = None,
    ) -> None:
        """``settings`` are the backend's first; with the handshake both sides know the other's."""
        super().__init__()
        self.tallies = {path: Tally() for path in treatments}
        self.session = CriSession(
            lambda path: Route(treatments[path], self.tallies[path], path.strip("/"))
        )
        self.client = ClientFrames()
        self.server = ServerFrames()
        self.to_client = Side()
        self.to_backend = Side()
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

    def __lshift__(self, expected: Outgoing | Failed) -> Self:
        if not isinstance(expected, Failed):
            return super().__lshift__(expected)
        self._take_failure(expected)
        return self

    def _collect(self) -> None:
        # The preface comes before all frames.
        written = self.session.to_backend
        if written and not self._preface_seen:
            data = b"".join(written)
            assert data.startswith(frames.PREFACE)
            written[:] = [data.removeprefix(frames.PREFACE)]
            self._preface_seen = True
        super()._collect()

    def _take_failure(self, expected: Failed) -> None:
        assert self.session.failed is not None
        assert self.session.failed.code == expected.code
        assert self.to_client.frames, "the client was not reported"
        goaway = self.to_client.frames.pop(0)
        assert goaway.kind == frames.GOAWAY
        assert int.from_bytes(goaway.payload[4:8], "big") == expected.code
        assert goaway.payload[8:].decode() == str(self.session.failed)


def arrived(stream: int, content: bytes, *, method: str = "hold") -> RequestArrived:
    """The request that a held or watched call turns into."""
    return RequestArrived(stream, method, content, method == "hold")


def credited(stream: int, size: int) -> Client:
    """Credit for what was read of a stream: its own and the connection's, or only this (0)."""
    credit = ClientFrames().credit
    return Client(*([credit(stream, size)] if stream else []), credit(0, size))


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
