from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from koord_manager.metrics_api.credentials import HttpsContext, Pair, grpc_credentials
from koord_manager.metrics_api.receiver import SERVER_OPTIONS
from koord_service.grpc_core import grpc

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")


def pair_of(made: Certificates) -> Pair:
    return Pair(made.certificate.read_bytes(), made.key.read_bytes())


def client_context(authority: Path, own: Certificates | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


class Served:
    """A server whose pair and whose clients' authority may change; says whom it has seen."""

    def __init__(self, pair: Pair, client_ca: str = "") -> None:
        self.pair = pair
        self.client_ca = client_ca
        self.tls = HttpsContext(lambda: self.pair, lambda: self.client_ca)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = writer.get_extra_info("peercert")
        writer.write(b"known\n" if seen else b"unknown\n")
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._greet, "127.0.0.1", 0, ssl=self.tls.context)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await server.wait_closed()


async def said(port: int, context: ssl.SSLContext) -> str:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    try:
        return (await reader.read()).decode().strip() or "hung up"
    except (ssl.SSLError, ConnectionError):
        return "hung up"
    finally:
        writer.close()


async def test_new_connections_get_the_newest_pair(tmp_path: Path) -> None:
    old, new = make_certificates(tmp_path / "old"), make_certificates(tmp_path / "new")
    served = Served(pair_of(old))
    async with served.open() as port:
        assert await said(port, client_context(old.authority)) == "unknown"
        served.pair = pair_of(new)
        assert await said(port, client_context(new.authority)) == "unknown"
        with pytest.raises(ssl.SSLCertVerificationError):
            await said(port, client_context(old.authority))
        served.pair = Pair(b"no certificate", b"no key")
        assert await said(port, client_context(new.authority)) == "unknown"


async def test_clients_are_known_by_the_authority_of_the_moment(tmp_path: Path) -> None:
    server, first, second = (make_certificates(tmp_path / one) for one in ("s", "a", "b"))
    served = Served(pair_of(server))
    async with served.open() as port:
        served.client_ca = first.authority.read_text()
        assert await said(port, client_context(server.authority, first)) == "known"
        assert await said(port, client_context(server.authority)) == "unknown"
        assert await said(port, client_context(server.authority, second)) == "hung up"
        served.client_ca = second.authority.read_text()
        assert await said(port, client_context(server.authority, second)) == "known"
        assert await said(port, client_context(server.authority, first)) == "hung up"


async def test_grpc_gets_the_newest_pair_too(tmp_path: Path) -> None:
    old, new = make_certificates(tmp_path / "old"), make_certificates(tmp_path / "new")
    current = [pair_of(old)]
    server = grpc.aio.server(options=SERVER_OPTIONS)
    port = server.add_secure_port("127.0.0.1:0", grpc_credentials(lambda: current[0]))
    await server.start()
    try:
        assert await reached(port, old.authority)
        current[0] = pair_of(new)
        assert await reached(port, new.authority)
        assert not await reached(port, old.authority)
    finally:
        await server.stop(None)


async def reached(port: int, authority: Path) -> bool:
    """Whether the server answers at all: that it knows no such method."""
    credentials = grpc.ssl_channel_credentials(authority.read_bytes())
    options = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.ssl_target_name_override", "localhost"),
    )
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        try:
            await channel.unary_unary("/a/B")(b"", timeout=5)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
    return False


def test_keys_are_not_printed() -> None:
    assert "SECRET" not in repr(Pair(b"", b"SECRET"))
