"""The session under arbitrary cutting, and fed with anything.

What is rewritten must be understood by ``h11``, which raises on whatever is not allowed in
HTTP/1.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from unittest import mock

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from koord_proxy.contract.events import (
    CallAbandoned,
    CallEnded,
    RequestArrived,
    Route,
    SessionEvent,
    Tally,
    Treatment,
)
from koord_proxy.docker import http_messages as messages_module
from koord_proxy.docker import session as session_module
from koord_proxy.docker.session import BadRequestError, DockerSession

from tests.support.docker_playbook import CONTINUE, PING, PONG, TREATMENTS, answer, chunked, post

TALLY = Tally()


def route(target: str) -> Route:
    """A target's first segment is how it is treated; of another, its length."""
    path = target.split(" ")[1].strip("/").split("/")
    kinds = list(TREATMENTS.values())
    return Route(TREATMENTS.get(path[0], kinds[len(target) % 3]), TALLY, path[-1])


@pytest.fixture(autouse=True, scope="module")
def small_limits():
    """So that what is generated meets them."""
    with (
        mock.patch.object(messages_module, "MAX_HEAD", 2000),
        mock.patch.object(session_module, "MAX_MESSAGE", 300),
        mock.patch.object(session_module, "MAX_RESPONSE", 60),
    ):
        yield


# ---- cutting

awkward = st.lists(
    st.sampled_from(
        [b"\r\n\r\n", b"\r\n", b"\r", b"\n", b"0\r\n\r\n", b"x", b"\xff\x00", b"GET / "]
    ),
    max_size=12,
).map(b"".join)
trailers = st.sampled_from([b"", b"A: b\r\n", b"Trail: \r\nB: c\r\n"])
extensions = st.sampled_from([b"", b";a", b';a="b"'])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body as its head announces it, with that line; and as it is sent."""
    if draw(st.booleans()):
        body = draw(awkward)
        return b"Content-Length: %d\r\n" % len(body), body
    chunks = draw(st.lists(awkward.filter(bool), max_size=4))
    sent = chunked(*chunks, trailers=draw(trailers), extension=draw(extensions))
    return b"Transfer-Encoding: chunked\r\n", sent


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A request and its response."""
    kind = draw(st.sampled_from(sorted(TREATMENTS)))
    call = draw(st.sampled_from(["create", "stop"]))
    line, body = draw(st.one_of(st.just((b"", b"")), bodies()))
    request = f"POST /{kind}/{call} HTTP/1.1\r\nX: y\r\n".encode() + line + b"\r\n" + body
    status = draw(st.sampled_from([200, 201, 204, 304, 404, 500]))
    line, body = draw(bodies())
    if status in (204, 304):
        body = b""
    interim = CONTINUE * draw(st.integers(0, 2))
    return request, interim + b"HTTP/1.1 %d Whatever\r\n%b\r\n%b" % (status, line, body)


@dataclass
class Run:
    """A session and all that came out of it."""

    session: DockerSession = field(default_factory=lambda: DockerSession(route))
    to_client: bytes = b""
    to_backend: bytes = b""
    requests: list[SessionEvent] = field(default_factory=list)

    def collect(self) -> list[SessionEvent]:
        session = self.session
        self.to_client += b"".join(session.to_client)
        self.to_backend += b"".join(session.to_backend)
        new = session.requests.copy()
        self.requests += new
        for given_ in (session.to_client, session.to_backend, session.requests):
            given_.clear()
        return new

    def decide(self) -> None:
        """Release what is held."""
        for request in self.collect():
            if isinstance(request, RequestArrived) and request.held:
                self.session.release(request.stream)
                self.collect()


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Data in pieces of these sizes, over and over."""
    out, start, turn = [], 0, 0
    while start < len(data):
        size = sizes[turn % len(sizes)] if sizes else len(data)
        out.append(data[start : start + size])
        start += size
        turn += 1
    return out


def play(rows: list[tuple[bytes, bytes]], sizes: list[int], *, ahead: bool) -> Run:
    """All exchanges, the requests one by one or ahead of all responses."""
    run = Run()
    if ahead:
        for piece in pieces(b"".join(request for request, _ in rows), sizes):
            run.session.receive_from_client(piece)
            run.decide()
    for request, response in rows:
        for piece in [] if ahead else pieces(request, sizes):
            run.session.receive_from_client(piece)
            run.decide()
        for piece in pieces(response, sizes):
            run.session.receive_from_backend(piece)
            run.decide()
    return run


@given(
    st.lists(exchanges(), min_size=1, max_size=5),
    st.lists(st.integers(1, 40), max_size=8),
    st.booleans(),
)
def test_cutting_and_sending_ahead_change_nothing(rows, sizes, ahead):
    whole = play(rows, [], ahead=False)
    assert whole.to_backend == b"".join(request for request, _ in rows)
    assert whole.to_client == b"".join(response for _, response in rows)
    assert not whole.session.busy
    assert not whole.session.failed
    cut = play(rows, sizes, ahead=ahead)
    assert cut.requests == whole.requests
    assert (cut.to_backend, cut.to_client) == (whole.to_backend, whole.to_client)
    read = [stream + 1 for stream, row in enumerate(rows) if b"/relay" not in row[0]]
    ended = [reported.stream for reported in whole.requests if isinstance(reported, CallEnded)]
    assert ended == read


@given(bodies(), st.sampled_from([None, b"", b"another", b"\r\n\r\n"]), st.booleans())
def test_strict_peers_understand_what_is_decided(framed, message, refused):
    line, body = framed
    head = b"POST /hold/create HTTP/1.1\r\nHost: docker\r\n" + line
    run = Run()
    run.session.receive_from_client(head + b"\r\n" + body)
    [asked] = run.collect()
    server, client = h11.Connection(h11.SERVER), h11.Connection(h11.CLIENT)
    if refused:
        run.session.refuse(asked.stream, "no")
        run.collect()
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "docker")]))
        client.send(h11.EndOfMessage())
        events = heard(client, run.to_client)
        assert events[0].status_code == 503
        assert content(events) == b'{"message": "no"}'
        return
    run.session.release(asked.stream, message)
    run.collect()
    events = heard(server, run.to_backend)
    assert events[0].target == b"/hold/create"
    assert content(events) == (asked.message if message is None else message)


def heard(peer: h11.Connection, data: bytes) -> list[h11.Event]:
    """What a peer makes of the bytes it gets."""
    peer.receive_data(data)
    out: list[h11.Event] = []
    while (event := peer.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
        out.append(event)
    return out


def content(events: list[h11.Event]) -> bytes:
    return b"".join(bytes(one.data) for one in events if isinstance(one, h11.Data))


# ---- anything

snippets = st.sampled_from(
    [
        PING,
        PONG,
        post("/hold/create", b"{}"),
        post("/watch/create", b"{}"),
        post("/hold/create", b"", "Transfer-Encoding: chunked"),
        post("/watch/create", b"", "Transfer-Encoding: chunked"),
        post("/relay/exec", b"", "Connection: Upgrade", "Upgrade: tcp"),
        post("/relay/build", b"", "Content-Length: 20"),
        post("/relay/build", b"x" * 200),
        chunked(b"{}"),
        chunked(b"x" * 350),
        b"3\r\nabc\r\n",
        b"no size\r\n",
        b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        answer(404, b"no"),
        CONTINUE,
        b"\r\n\r\n",
        b"A: " + b"x" * 1500,
    ]
)
junk = st.one_of(snippets, snippets, st.binary(max_size=30), snippets.map(lambda data: data[:-1]))
said = st.tuples(st.sampled_from(["client", "backend"]), junk)
ends = st.tuples(st.sampled_from(["client eof", "backend eof"]), st.just(b""))
others = st.tuples(st.sampled_from(["release", "change", "refuse", "drain"]), st.just(b""))


def follow(run: Run, what: str, data: bytes, stream: int = 0) -> list[SessionEvent]:
    """Play a step; a decision is about a stream."""
    session = run.session
    calls: dict[str, Callable[[], object]] = {
        "client": lambda: session.receive_from_client(data),
        "backend": lambda: session.receive_from_backend(data),
        "release": lambda: session.release(stream),
        "change": lambda: session.release(stream, b"changed"),
        "refuse": lambda: session.refuse(stream, "no"),
        "drain": session.drain,
        "client eof": session.client_eof,
        "backend eof": session.backend_eof,
    }
    calls[what]()
    return run.collect()


def never_held(target: str) -> Route:
    treatment = route(target).treatment
    return Route(Treatment.WATCH if treatment is Treatment.HOLD else treatment, TALLY, "create")


@given(st.lists(st.one_of(said, said, said, ends), max_size=20))
@example([("client", PING), ("backend", PONG + PONG), ("client", PING)])
def test_of_what_is_not_held_nothing_is_lost_or_reordered(script):
    run, sent, answered = Run(DockerSession(never_held)), b"", b""
    for what, data in script:
        follow(run, what, data)
        sent += data if what == "client" else b""
        answered += data if what == "backend" else b""
        session = run.session
        if session.failed is not None:
            # All that the engine said was passed on; what the client said before that went on.
            refused = isinstance(session.failed, BadRequestError)
            assert run.to_client.startswith(answered) if refused else run.to_client == answered
            assert sent.startswith(run.to_backend)
            return
        assert run.to_client == answered
        assert sent.startswith(run.to_backend)
        if not session.drained:
            head = b"".join(session._exchange.kept) if session._exchange else b""
            assert run.to_backend + head + session._waiting == sent


class Story:
    """The shell understands all that it gets."""

    def __init__(self) -> None:
        self.last = 0
        self.undecided = 0
        self.under_way = 0

    def reported(self, request: SessionEvent) -> None:
        if isinstance(request, RequestArrived):
            assert request.stream > self.last
            assert not self.undecided
            assert not self.under_way
            assert (request.message is None) == bool(request.problem)
            self.last = request.stream
            if request.held:
                self.undecided = request.stream
            else:
                self.under_way = request.stream
        elif isinstance(request, CallAbandoned):
            assert request.stream == self.undecided
            self.undecided = 0
        else:
            assert request.stream == self.under_way
            self.under_way = 0

    def decided(self, what: str) -> None:
        if what in ("release", "change") and self.undecided:
            self.under_way = self.undecided
        if what in ("release", "change", "refuse"):
            self.undecided = 0


@given(st.lists(st.one_of(said, said, others, others, ends), max_size=25))
def test_whatever_comes_the_shell_gets_what_makes_sense(script):
    run, story = Run(), Story()
    for what, data in script:
        stream = story.undecided
        story.decided(what)
        for request in follow(run, what, data, stream):
            story.reported(request)
        session = run.session
        if session.failed or session.drained:
            assert not session.busy
            assert not story.under_way
            assert not story.undecided
    run.session.abandon()
    for request in run.collect():
        story.reported(request)
    assert not story.under_way
    assert not story.undecided
