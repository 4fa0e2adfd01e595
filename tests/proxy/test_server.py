"""The sockets: how a connection ends, as seen by peers that are read byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop
from koord_proxy import server
from koord_proxy.cri.draining import PING_PAYLOAD
from koord_proxy.cri.session import CriSession
from koord_proxy.server import Relay

from tests.support import frames
from tests.support.caller import Caller
from tests.support.embedded import EmbeddedRuntime
from tests.support.frames import ClientFrames, Frame, ServerFrames, message
from tests.support.processes import PATIENCE
from tests.support.relaying import listening, relay_all, relaying
from tests.support.waiting import until

HELLO = frames.PREFACE + ClientFrames().settings()
GOAWAY, PING = frames.GOAWAY, frames.PING
ASKED = [
    Frame(*frames.read_frames(data)[0][0])
    for data in (ServerFrames().goaway(2**31 - 1), ServerFrames().ping(PING_PAYLOAD))
]


def last_word(stream: int) -> Frame:
    return frames.read_frames(ServerFrames().goaway(stream))[0][0]


class Backend:
    """Says its SETTINGS, and keeps what came; a request is answered when the test says so."""

    def __init__(self) -> None:
        self.got: list[Frame] = []
        self.frames = ServerFrames()
        self._rest = b""
        self.writer: asyncio.StreamWriter

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        writer.write(self.frames.settings())
        # Some tests end before a client has said anything.
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readexactly(len(frames.PREFACE))
        while data := await reader.read(1 << 16):
            found, self._rest = frames.read_frames(self._rest + data)
            self.got += found
        writer.close()

    def requests(self) -> list[int]:
        return [frame.stream for frame in self.got if frame.kind == frames.HEADERS]

    def answer(self, stream: int) -> None:
        self.writer.write(self.frames.answer(stream))


class Peer:
    """A client on a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.frames = ClientFrames()
        self._reader, self._writer = reader, writer
        self._got: list[Frame] = []
        self._rest = b""

    def send(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))

    def acknowledge(self) -> None:
        self.send(self.frames.ping(PING_PAYLOAD, ack=True))

    def call(self, stream: int) -> None:
        """A whole request."""
        data = self.frames.data(stream, message(b"ask"), end=True)
        self.send(self.frames.request(stream, "/any"), data)

    async def reads(self, *expected: Frame) -> None:
        for one in expected:
            while not self._got:
                data = await asyncio.wait_for(self._reader.read(1 << 16), PATIENCE)
                assert data, f"hung up before {one}"
                self._got, self._rest = frames.read_frames(self._rest + data)
            assert self._got.pop(0) == one

    async def reads_end(self) -> None:
        """The end of the connection, as one that was closed and not reset."""
        assert not self._got
        assert await asyncio.wait_for(self._reader.read(1 << 16), PATIENCE) == b""

    async def reads_answer(self, stream: int) -> None:
        seen: list[Frame] = []
        while not any(frame.flags & frames.END_STREAM for frame in seen if frame.stream == stream):
            seen += self._got
            data = b"" if seen and self._got else await self._reader.read(1 << 16)
            self._got, self._rest = frames.read_frames(self._rest + data)
        assert not self._got

    def hang_up(self) -> None:
        self._writer.close()


class Node:
    def __init__(self, directory: Path, relay: Relay, backend: Backend) -> None:
        self.directory = directory
        self.relay = relay
        self.backend = backend
        self.draining: asyncio.Task[None] | None = None
        self.peers: list[Peer] = []

    async def peer(self) -> Peer:
        """A client whose connection stands."""
        peer = Peer(*await asyncio.open_unix_connection(self.directory / "p.sock"))
        self.peers.append(peer)
        peer.send(HELLO)
        await peer.reads(frames.read_frames(ServerFrames().settings())[0][0])
        return peer

    def drain(self, seconds: float = 2 * PATIENCE) -> None:
        self.draining = asyncio.get_running_loop().create_task(self.relay.drain(seconds))

    async def drained(self) -> None:
        assert self.draining is not None
        await asyncio.wait_for(self.draining, PATIENCE)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    backend = Backend()
    async with relaying(tmp_path, CriSession, backend.serve) as relay:
        node = Node(tmp_path, relay, backend)
        yield node
        for peer in node.peers:
            peer.hang_up()
        await relay.drain(0)
        if node.draining is not None:
            await node.draining


class TestDraining:
    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch):
        """None is left because the machine is slow; what ends before does not wait for that."""
        monkeypatch.setattr(server, "ASK_SECONDS", 2 * PATIENCE)
        monkeypatch.setattr(server, "LINGER_SECONDS", 2 * PATIENCE)

    @pytest.fixture
    def impatient(self, monkeypatch, patient):
        monkeypatch.setattr(server, "ASK_SECONDS", 0.5)
        monkeypatch.setattr(server, "LINGER_SECONDS", 0.5)

    async def test_an_idle_client_leaves_at_once(self, node):
        peer = await node.peer()
        node.drain()
        await peer.reads(*ASKED)
        peer.acknowledge()
        await peer.reads(last_word(0))
        await peer.reads_end()
        assert not node.draining.done()
        peer.hang_up()
        await node.drained()

    async def test_one_that_hangs_up_by_itself_is_gone(self, node):
        peer = await node.peer()
        node.drain()
        await peer.reads(*ASKED)
        peer.hang_up()
        await node.drained()

    @pytest.mark.usefixtures("impatient")
    async def test_one_that_does_nothing_is_left(self, node):
        peer = await node.peer()
        node.drain()
        await peer.reads(*ASKED, last_word(0))
        await peer.reads_end()
        await node.drained()

    @pytest.mark.usefixtures("impatient")
    async def test_one_that_was_never_answered_is_left(self, node, tmp_path):
        """No preface, so no session: somebody who only tries the socket."""
        silent = await asyncio.open_unix_connection(tmp_path / "p.sock")
        await until(lambda: node.relay.connections)
        node.drain()
        await node.drained()
        silent[1].close()

    async def test_a_request_on_its_way_is_served(self, node):
        peer = await node.peer()
        # Not read before the GOAWAY is written: both happen in this turn.
        peer.call(1)
        node.drain()
        await peer.reads(*ASKED)
        peer.call(3)
        peer.acknowledge()
        await peer.reads(last_word(3))
        assert node.backend.requests() == [1, 3]
        for stream in (1, 3):
            assert not node.draining.done()
            node.backend.answer(stream)
            await peer.reads_answer(stream)
        await peer.reads_end()
        peer.hang_up()
        await node.drained()

    async def test_a_request_after_the_last_word_goes_nowhere_and_resets_nothing(self, node):
        peer = await node.peer()
        peer.call(1)
        node.drain()
        await peer.reads(*ASKED)
        peer.acknowledge()
        await peer.reads(last_word(1))
        peer.call(3)
        await asyncio.sleep(0.05)
        node.backend.answer(1)
        await peer.reads_answer(1)
        # The connection is over, and still it may write.
        peer.call(5)
        await asyncio.sleep(0.05)
        peer.call(7)
        await asyncio.sleep(0.05)
        await peer.reads_end()
        peer.hang_up()
        await node.drained()
        assert node.backend.requests() == [1]

    async def test_it_has_an_end(self, node):
        peer = await node.peer()
        peer.call(1)
        node.drain(0.2)
        await peer.reads(*ASKED)
        await node.drained()
        await peer.reads_end()

    async def test_a_slow_reader_gets_all_there_is(self, node, monkeypatch):
        monkeypatch.setattr(server, "LINGER_SECONDS", 0.05)
        peer = await node.peer()
        peer.call(1)
        await until(node.backend.requests)
        size = 16_000
        data = [node.backend.frames.data(1, bytes(size)) for _ in range(40)]
        node.backend.writer.write(b"".join((node.backend.frames.response(1), *data)))
        node.backend.writer.write(node.backend.frames.trailers(1))
        peer._reader._transport.pause_reading()
        node.drain()
        peer.acknowledge()
        await asyncio.sleep(0.5)
        assert not node.draining.done()
        peer._reader._transport.resume_reading()
        whole = await asyncio.wait_for(peer._reader.read(), PATIENCE)
        found, rest = frames.read_frames(whole)
        assert rest == b""
        assert sum(len(one.payload) for one in found if one.kind == frames.DATA) == 40 * size
        assert [one for one in found if one.kind in (GOAWAY, PING)] == [*ASKED, last_word(1)]
        await node.drained()


class TestBackendIsLost:
    async def test_the_client_reads_what_was_said_and_then_the_end(self, node):
        peer = await node.peer()
        peer.call(1)
        await until(node.backend.requests)
        node.backend.answer(1)
        node.backend.writer.close()
        for stream in range(3, 99, 2):
            peer.call(stream)
        await peer.reads_answer(1)
        await peer.reads_end()
        peer.hang_up()
        await until(lambda: not node.relay.connections)


class _Over(Exception):
    """The process has ended: what still runs is cancelled."""


@contextlib.asynccontextmanager
async def living(shared: socket.socket, backend: Path) -> AsyncIterator[None]:
    """One life of a proxy on a socket that outlives it, as systemd has it."""
    try:
        async with asyncio.TaskGroup() as tasks:
            relay = Relay(
                backend_path=str(backend), session=CriSession, interceptor=relay_all(), tasks=tasks
            )
            await relay.listen([shared.dup()])
            yield
            await asyncio.wait_for(relay.drain(2 * PATIENCE), PATIENCE)
            raise _Over
    except* _Over:
        pass


@pytest.mark.parametrize(
    ("run", "restarts"), [(uvloop.run, 40), (asyncio.run, 10)], ids=["uvloop", "asyncio"]
)
def test_no_call_is_lost_however_often_the_proxy_is_restarted(tmp_path, run, restarts):
    callers = [Caller(tmp_path / "p.sock") for _ in range(4)]

    async def live(shared: socket.socket, backend: Path) -> None:
        # Where all is slow there are more of them, so that each caller calls under many.
        for number in itertools.count():
            if number >= restarts and min(caller.calls for caller in callers) > restarts:
                break
            assert number < 20 * restarts, [caller.calls for caller in callers]
            async with living(shared, backend):
                # Now in the middle of a call, now while the client connects.
                await asyncio.sleep(0.02 + number % 10 / 500)
        async with living(shared, backend):
            for caller in callers:
                caller.over = True
            await until(lambda: not any(caller.is_alive() for caller in callers))

    with EmbeddedRuntime(tmp_path) as runtime, listening(tmp_path / "p.sock") as shared:
        for caller in callers:
            caller.start()
        run(live(shared, runtime.address))
        for caller in callers:
            caller.join(PATIENCE)
    assert [caller.errors for caller in callers] == [[]] * len(callers)
    assert min(caller.calls for caller in callers) > restarts
