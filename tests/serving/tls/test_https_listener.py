"""Clients that ask for nothing, at the webhooks' real server."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from koord_serving.tls import https_listener
from koord_serving.tls.core.certificates import CA_CERT

from tests.support.processes import PATIENCE
from tests.support.serving import NAME, Serving, serving, trusting

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER_END = b"\r\n\r\nok\n"

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(running: Serving, address: str) -> Ends:
    """As a client of this address, over TLS."""
    return await asyncio.open_connection(
        "127.0.0.1",
        running.server.port,
        ssl=trusting(running.data[CA_CERT]),
        server_hostname=NAME,
        local_addr=(address, 0),
    )


async def ended(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(OSError):
            return await reader.read(1) == b""
        return True


async def answered(ends: Ends) -> None:
    reader, writer = ends
    writer.write(REQUEST)
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readuntil(ANSWER_END)).startswith(b"HTTP/1.1 200 ")


async def test_idle_connections_of_one_address_end_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(https_listener, "CONNECTIONS", 4)
    async with serving() as running:
        api_server = await connect(running, "127.0.0.1")
        await answered(api_server)
        idle = [await connect(running, "127.0.0.2") for _ in range(8)]
        assert [await ended(reader) for reader, _ in idle[:5]] == [True] * 5
        # Its connection is the oldest of all.
        await answered(api_server)
        await answered(idle[-1])
        for _, writer in (api_server, *idle):
            writer.close()


async def test_a_client_that_never_begins_with_tls_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(https_listener, "HANDSHAKE_SECONDS", 0.2)
    async with serving() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
        assert await ended(reader)
        writer.close()
