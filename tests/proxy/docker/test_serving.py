"""Docker's session on real sockets, in both event loops: ends, half-closes, back-pressure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from koord_proxy.docker.session import DockerSession
from koord_proxy.rules.registration import FailurePolicy
from koord_proxy.server import WRITE_AHEAD, Relay

from tests.support import docker_requests as requests
from tests.support.interception import AWAY, Hooks, intercepting
from tests.support.processes import PATIENCE
from tests.support.relaying import relaying
from tests.support.waiting import until

PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
ATTACH = b"POST /containers/x/attach HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
ATTACHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


class Peer:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def gets(self, data: bytes) -> None:
        assert await asyncio.wait_for(self.reader.readexactly(len(data)), PATIENCE) == data

    async def gets_end(self) -> None:
        assert await asyncio.wait_for(self.reader.read(), PATIENCE) == b""


@dataclass
class Node:
    relay: Relay
    directory: Path
    accepted: asyncio.Queue[Peer] = field(default_factory=asyncio.Queue)
    peers: list[Peer] = field(default_factory=list)

    async def client(self) -> Peer:
        path = self.directory / "p.sock"
        self.peers.append(Peer(*await asyncio.open_unix_connection(path)))
        return self.peers[-1]

    async def pair(self) -> tuple[Peer, Peer]:
        """A client, and the engine's end of its connection."""
        client = await self.client()
        return client, await asyncio.wait_for(self.accepted.get(), PATIENCE)

    async def gone(self, client: Peer) -> None:
        client.writer.close()
        await until(lambda: not self.relay.connections)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.peers.append(Peer(reader, writer))
        found.accepted.put_nowait(found.peers[-1])

    async with relaying(tmp_path, DockerSession, accept) as relay:
        found = Node(relay, tmp_path)
        yield found
        await relay.drain(0)
        for peer in found.peers:
            peer.writer.close()


async def test_what_was_sent_ahead_is_served_and_then_the_next(node):
    client, engine = await node.pair()
    client.send(PING * 2)
    await engine.gets(PING)
    # Once it is stalled nothing more is read; that must not be for ever.
    client.send(PING)
    for _ in range(3):
        engine.send(PONG)
        await client.gets(PONG)
    await engine.gets(PING * 2)
    client.writer.close()
    await engine.gets_end()
    await node.gone(client)


async def test_a_client_that_has_said_all_gets_its_answer(node):
    client, engine = await node.pair()
    client.send(PING)
    client.writer.write_eof()
    await engine.gets(PING)
    await engine.gets_end()
    engine.send(PONG)
    await client.gets(PONG)
    await client.gets_end()
    await node.gone(client)


async def attached(node: Node) -> tuple[Peer, Peer]:
    client, engine = await node.pair()
    client.send(ATTACH)
    await engine.gets(ATTACH)
    engine.send(ATTACHED)
    await client.gets(ATTACHED)
    return client, engine


async def test_input_ends_and_output_goes_on(node):
    client, engine = await attached(node)
    client.send(b"in")
    client.writer.write_eof()
    await engine.gets(b"in")
    await engine.gets_end()
    engine.send(b"out")
    await client.gets(b"out")
    engine.writer.close()
    await client.gets_end()
    await node.gone(client)


async def test_output_ends_and_input_goes_on(node):
    client, engine = await attached(node)
    engine.writer.write_eof()
    await client.gets_end()
    client.send(b"in")
    await engine.gets(b"in")
    client.writer.close()
    await engine.gets_end()
    engine.writer.close()
    await node.gone(client)


@pytest.mark.parametrize("towards_client", [True, False])
async def test_who_does_not_read_stops_the_other(node, towards_client):
    client, engine = await attached(node)
    slow, fast = (client, engine) if towards_client else (engine, client)
    slow.reader._transport.pause_reading()
    piece = bytes(1 << 16)
    sent = 0
    fast.writer.transport.set_write_buffer_limits(high=0)
    while sent < 64 * WRITE_AHEAD:
        fast.send(piece)
        sent += len(piece)
        try:
            await asyncio.wait_for(fast.writer.drain(), 0.5)
        except TimeoutError:
            break
    # It stops at what the two sockets and one buffer in between hold.
    assert sent < 8 * WRITE_AHEAD
    slow.reader._transport.resume_reading()
    await slow.gets(bytes(sent))


async def test_what_is_no_http_is_refused(node, caplog):
    caplog.set_level(logging.WARNING, "pykoord")
    client, engine = await node.pair()
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    await client.gets(b"HTTP/1.1 400 Bad Request\r\n")
    await engine.gets_end()
    [event] = caplog.records
    assert event.getMessage() == "connection closed"
    assert "the request cannot be parsed as HTTP/1.1" in event.fields["error"]


async def test_many_refused_at_once_cost_one_turn_each(tmp_path):
    """Each answer lets the next one in: that must not go ever deeper."""
    hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
    number = 3000
    create = (
        b"POST /containers/create?name=%s HTTP/1.1\r\nHost: docker\r\nContent-Length: 1\r\n\r\nx"
    )
    engine: list[asyncio.StreamWriter] = []
    first = requests.create_sandbox()
    async with (
        intercepting(requests, tmp_path, hooks) as client,
        relaying(
            tmp_path, DockerSession, lambda _, writer: engine.append(writer), client.interceptor
        ) as relay,
    ):
        peer = Peer(*await asyncio.open_unix_connection(tmp_path / "p.sock"))
        head = f"{first.target} HTTP/1.1\r\nHost: docker\r\nContent-Length: {len(first.body)}"
        peer.send(head.encode() + b"\r\n\r\n" + first.body)
        peer.send(create % requests.name("main").encode() * number)
        got = b""
        while got.count(b"503 Service Unavailable") < number + 1:
            got += await asyncio.wait_for(peer.reader.read(1 << 20), PATIENCE)
        await relay.drain(0)
        for writer in (peer.writer, *engine):
            writer.close()
            await writer.wait_closed()


class TestDraining:
    async def test_an_idle_client_is_hung_up_on(self, node):
        client, engine = await node.pair()
        client.send(PING)
        await engine.gets(PING)
        engine.send(PONG)
        await client.gets(PONG)
        async with asyncio.TaskGroup() as group:
            group.create_task(node.relay.drain(PATIENCE))
            await client.gets_end()
            client.writer.close()
        assert not node.relay.connections

    async def test_a_tunnel_has_its_time(self, node):
        client, engine = await attached(node)
        async with asyncio.TaskGroup() as group:
            draining = group.create_task(node.relay.drain(PATIENCE))
            await asyncio.sleep(0.05)
            engine.send(b"still")
            await client.gets(b"still")
            draining.cancel()
        await node.relay.drain(0.05)
        await client.gets_end()


async def test_an_engine_that_is_lost(node):
    client, engine = await node.pair()
    client.send(PING)
    await engine.gets(PING)
    engine.send(PONG[:-1])
    engine.writer.close()
    await client.gets(PONG[:-1])
    await client.gets_end()
    await node.gone(client)


async def test_an_engine_that_is_away(node, tmp_path):
    (tmp_path / "b.sock").unlink()
    client = await node.client()
    client.send(PING)
    await client.gets_end()
    await node.gone(client)
    assert "No such file" in node.relay.backend_error
