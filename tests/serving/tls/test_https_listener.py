"""Clients that ask for nothing, at the webhooks' real server."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from koord_serving.admission.handler import AdmissionLimits
from koord_serving.tls import https_listener
from koord_serving.tls.core.certificates import CA_CERT

from tests.support.processes import PATIENCE
from tests.support.serving import NAME, Serving, serving, trusting

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER_END = b"\r\n\r\nok\n"
HALF_REQUEST = (
    b"POST /admit HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\n\r\n{"
)

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


async def under_way(running: Serving, requests: int) -> None:
    """Until so many requests are."""
    async with asyncio.timeout(PATIENCE):
        while running.registry.get_sample_value("koord_manager_webhook_in_flight") != requests:
            await asyncio.sleep(0.01)


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


async def test_a_request_under_way_is_not_broken_off_while_another_connection_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(https_listener, "CONNECTIONS", 3)
    async with serving(limits=AdmissionLimits(body=PATIENCE, answer=PATIENCE)) as running:
        busy = [await connect(running, "127.0.0.1") for _ in range(2)]
        for number, (_, writer) in enumerate(busy, 1):
            writer.write(HALF_REQUEST)
            await under_way(running, number)
        idle = await connect(running, "127.0.0.1")
        busy.append(await connect(running, "127.0.0.1"))
        assert await ended(idle[0])
        busy[2][1].write(HALF_REQUEST)
        await under_way(running, 3)
        # Of those that all have a request under way the oldest has to go.
        newest = await connect(running, "127.0.0.1")
        assert await ended(busy[0][0])
        for reader, writer in busy[1:]:
            writer.write(b"}")
            async with asyncio.timeout(PATIENCE):
                assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        for _, writer in (*busy, idle, newest):
            writer.close()


@pytest.mark.parametrize("header", [b"Authorization: Bearer " + b"secret" * 2000, b"secret\x00: x"])
async def test_nothing_of_what_is_no_request_is_logged(
    header: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as running:
        reader, writer = await connect(running, "127.0.0.1")
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert b" 400 " in await reader.readline()
        writer.close()
    assert "secret" not in caplog.text


async def test_a_client_that_never_begins_with_tls_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(https_listener, "HANDSHAKE_SECONDS", 0.2)
    async with serving() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
        assert await ended(reader)
        writer.close()
