"""The fuzz target: one input is a script of what both peers send and the shell decides.

The input's first byte chooses how the connection begins; after it comes one step
after another, each a byte for the kind and what that kind reads. Bytes run out
anywhere. Whatever comes, after each step hold the properties in ``Watch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from koord_proxy.contract.events import CallAbandoned, RequestArrived, Route, Tally, Treatment
from koord_proxy.cri import limits
from koord_proxy.cri.session import CriSession
from koord_proxy.cri.streams import Phase
from koord_wire import frames, headers, messages

from tests.support import frames as rfc

# Small, so that an input of some kilobytes meets them all.
LIMITS = {
    (limits, "MAX_MESSAGE"): 100,
    (limits, "MAX_HELD"): 250,
    (limits, "MAX_RESPONSE"): 200,
    (limits, "MAX_HEADER_BLOCK"): 400,
    (headers, "MAX_HEADER_LIST"): 2000,
    (headers, "MAX_SEEN"): 8,
    (headers, "MAX_SEEN_BLOCK"): 100,
}
CODES = {
    frames.PROTOCOL_ERROR,
    frames.FLOW_CONTROL_ERROR,
    frames.FRAME_SIZE_ERROR,
    frames.COMPRESSION_ERROR,
    frames.ENHANCE_YOUR_CALM,
}
TREATMENTS = (Treatment.RELAY, Treatment.WATCH, Treatment.HOLD, Treatment.HOLD)

# Kinds of steps. Others are what they are modulo the number of these.
FROM_CLIENT, FROM_BACKEND, CLIENT_FRAME, BACKEND_FRAME, RELEASE, CHANGE, REFUSE, DRAIN = range(8)


@contextmanager
def small_limits() -> Iterator[None]:
    """The session's limits, for as long as this lasts, are ``LIMITS``."""
    patches = [mock.patch.object(where, name, value) for (where, name), value in LIMITS.items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


class Input:
    """The bytes of a script, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def __bool__(self) -> bool:
        return self.position < len(self.data)

    def byte(self) -> int:
        taken = self.take(1)
        return taken[0] if taken else 0

    def take(self, size: int) -> bytes:
        taken = self.data[self.position : self.position + size]
        self.position += size
        return taken

    def chunk(self) -> bytes:
        """Bytes behind a length of two."""
        return self.take(int.from_bytes(self.take(2), "big"))

    def frame(self) -> bytes:
        """Kind, flags, stream, content: a frame whose length is right."""
        kind, flags, stream = self.take(3).ljust(3, b"\0")
        return rfc.frame(kind, flags, stream, self.chunk())


def route(path: str) -> Route:
    """A path's last byte decides, so that a fuzzer comes to all of them."""
    return Route(TREATMENTS[ord(path[-1]) % 4], Tally(), path)


def credit(frame: rfc.Frame) -> int:
    """What a frame adds to the connection's window."""
    if frame.kind != rfc.WINDOW_UPDATE or frame.stream & 0x7FFF_FFFF:
        return 0
    return int.from_bytes(frame.payload, "big") & 0x7FFF_FFFF


class ClientBooks:
    """The client's own count of its window on the connection."""

    def __init__(self) -> None:
        self.window = 65_535
        self.largest = 0
        self.sent = b""
        """What it sent and is not counted yet."""
        self.preface_due = True

    def saw(self, to_client: bytes, kept: int) -> None:
        """Count what came, and of what it sent all but the last ``kept`` bytes."""
        found, rest = rfc.read_frames(to_client)
        assert not rest
        self.window += sum(map(credit, found))
        passed = len(self.sent) - kept
        data, self.sent = self.sent[:passed], self.sent[passed:]
        if self.preface_due and data:
            data = data.removeprefix(frames.PREFACE)
            self.preface_due = False
        found, rest = rfc.read_frames(data)
        assert not rest
        sizes = [len(frame.payload) for frame in found if frame.kind == rfc.DATA]
        self.window -= sum(sizes)
        self.largest = max(self.largest, *sizes, 0)


class Watch:
    """A session under watch; ``check`` looks at what must always hold."""

    def __init__(self) -> None:
        self.session = CriSession(route)
        self.undecided: set[int] = set()
        self.given = 0
        self.client = ClientBooks()
        # What the backend allows: its own count, of what it said and what reached it.
        self.room = 65_535
        self.backend_sent = b""
        self.sent_to_backend = b""
        self.block_open = False
        self.dead = False

    def play(self, step: int, script: Input) -> None:
        session = self.session
        if step in (FROM_CLIENT, CLIENT_FRAME):
            data = script.chunk() if step == FROM_CLIENT else script.frame()
            self.from_client(data)
        elif step in (FROM_BACKEND, BACKEND_FRAME):
            data = script.chunk() if step == FROM_BACKEND else script.frame()
            self.from_backend(data)
        elif step == DRAIN:
            session.drain()
        else:
            self.decide(step, script)
        self.check()

    def from_client(self, data: bytes) -> None:
        self.given += len(data)
        self.client.sent += data
        self.session.receive_from_client(data)

    def from_backend(self, data: bytes) -> None:
        self.given += len(data)
        found, self.backend_sent = rfc.read_frames(self.backend_sent + data)
        self.room += sum(map(credit, found))
        self.session.receive_from_backend(data)

    def decide(self, step: int, script: Input) -> None:
        stream = script.byte()
        if stream not in self.undecided and self.undecided:
            stream = min(self.undecided)
        self.undecided.discard(stream)
        if step == RELEASE:
            self.session.release(stream)
        elif step == CHANGE:
            message = bytes(16 * script.byte())
            self.given += len(message) + 5
            self.session.release(stream, message)
        else:
            self.session.refuse(stream, "no" * script.byte(), script.byte())

    def check(self) -> None:
        session = self.session
        to_client = b"".join(session.to_client)
        to_backend = b"".join(session.to_backend)
        requests = list(session.requests)
        for out in (session.to_client, session.to_backend, session.requests):
            out.clear()
        if self.dead:
            assert [to_client, to_backend, requests] == [b"", b"", []], "it spoke after it failed"
            return
        self.check_requests(requests)
        if session.failed:
            self.dead = True
            self.check_farewell(to_client)
        else:
            self.check_blocks(to_backend)
            self.check_windows(to_client, to_backend)
        self.check_bounds()

    def check_requests(self, requests: list[object]) -> None:
        for request in requests:
            if isinstance(request, RequestArrived) and request.held:
                assert request.stream not in self.undecided
                self.undecided.add(request.stream)
                assert (request.message is None) == bool(request.problem)
            elif isinstance(request, CallAbandoned):
                self.undecided.remove(request.stream)

    def check_farewell(self, to_client: bytes) -> None:
        session = self.session
        assert session.failed is not None
        assert session.failed.code in CODES
        assert not session.busy
        assert not self.undecided
        goaway = rfc.FrameFactory().goaway(0, session.failed.code, str(session.failed).encode())
        assert to_client.endswith(goaway)

    def check_bounds(self) -> None:
        session = self.session
        streams = session._state.streams.values()
        read = [stream for stream in streams if stream.phase is not Phase.RELAYED]
        assert session._state.held_bytes == sum(len(stream.body) for stream in read)
        # A watched call's last frame may go beyond, before it is no longer read.
        last = self.client.largest
        assert session._state.held_bytes <= limits.MAX_HELD + last
        for stream in read:
            assert len(stream.body) <= limits.MAX_MESSAGE + messages.PREFIX_SIZE + last
            response = stream.response
            assert response is None or len(response) <= limits.MAX_RESPONSE
        frame = session._client.scanner.max_frame + frames.HEADER_SIZE
        if not session.stalled:
            assert len(session._client.scanner.buffer) < frame
        assert (
            len(session._backend.scanner.buffer)
            < session._client.max_frame_to_client + frames.HEADER_SIZE
        )
        if session._state.client_block is not None:
            assert len(session._state.client_block[2]) <= max(limits.MAX_HEADER_BLOCK, frame)
        assert len(session._client.headers._seen) <= headers.MAX_SEEN
        kept = (
            len(session._client.scanner.buffer)
            + len(session._backend.scanner.buffer)
            + session._state.held_bytes
        )
        kept += sum(len(waiting.data) for waiting in session._state.queue.values())
        assert kept <= self.given

    def check_windows(self, to_client: bytes, to_backend: bytes) -> None:
        """Our books agree with what each peer makes of what it saw."""
        session, window = self.session, self.session._state.window
        found, rest = rfc.read_frames(to_backend.removeprefix(frames.PREFACE))
        assert not rest
        later, _ = rfc.read_frames(b"".join(session._state.later_to_backend))
        self.room -= sum(len(frame.payload) for frame in found if frame.kind == rfc.DATA)
        unsent = sum(len(frame.payload) for frame in later if frame.kind == rfc.DATA)
        assert window.room == self.room - unsent >= 0
        self.client.saw(to_client, len(session._client.scanner.buffer))
        unreported, _ = rfc.read_frames(b"".join(session._state.later_to_client))
        assert self.client.window + sum(map(credit, unreported)) == (
            window.room + window.debt - window.queued
        )
        assert self.client.window >= 0
        assert window.debt >= 0
        assert window.queued == sum(map(len, session._state.queue.values()))

    def check_blocks(self, to_backend: bytes) -> None:
        """What goes to the backend is frames, its header blocks in one piece."""
        if not self.sent_to_backend and to_backend:
            assert to_backend.startswith(frames.PREFACE)
            to_backend = to_backend.removeprefix(frames.PREFACE)
            self.sent_to_backend = frames.PREFACE
        found, rest = rfc.read_frames(to_backend)
        assert not rest
        for frame in found:
            assert self.block_open == (frame.kind == rfc.CONTINUATION), frame
            if frame.kind in (rfc.HEADERS, rfc.CONTINUATION):
                self.block_open = not frame.flags & rfc.END_HEADERS


def begin(watch: Watch, how: int) -> None:
    """Mostly both sides have said hello; some inputs begin with nothing."""
    if how % 8 == 7:
        return
    peer = rfc.FrameFactory()
    window = (65_535, 0, 1, 50)[how >> 3 & 3]
    limit = (16_384, 60_000)[how >> 5 & 1]
    watch.from_client(frames.PREFACE + peer.settings())
    watch.from_backend(
        peer.settings({rfc.INITIAL_WINDOW_SIZE: window, rfc.MAX_FRAME_SIZE: limit})
        + peer.settings_ack()
    )
    watch.from_client(peer.settings_ack())
    if how >> 6 & 1:
        # Nearly all room is used, so that little needs to come for the rest of it.
        request = peer.block(101, rfc.literals([(":path", "/d")]))
        watch.from_client(request + peer.data(101, bytes(16_384)) * 3)
        watch.from_client(peer.data(101, bytes(16_384 - 50)))
    watch.check()


def run(data: bytes) -> Watch:
    """Play a script; any exception is a finding."""
    script = Input(data)
    watch = Watch()
    begin(watch, script.byte())
    while script:
        watch.play(script.byte() % 8, script)
    # The connections are closed, as they would be.
    watch.session.abandon()
    assert not watch.session.busy
    return watch


def relays_verbatim(client: bytes, backend: bytes, size: int) -> None:
    """With nothing to hold, what comes in goes out, up to where it is refused."""
    session = CriSession(lambda path: Route(Treatment.RELAY, Tally(), path))
    for start in range(0, max(len(client), len(backend)), size):
        session.receive_from_client(client[start : start + size])
        session.receive_from_backend(backend[start : start + size])
    assert client.startswith(b"".join(session.to_backend))
    if session.failed is None:
        assert backend.startswith(b"".join(session.to_client))
        kept = len(session._client.scanner.buffer)
        assert len(b"".join(session.to_backend)) == len(client) - kept
