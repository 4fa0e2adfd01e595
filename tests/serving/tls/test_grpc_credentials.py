from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from koord_manager.node_metric.receiver import SERVER_OPTIONS
from koord_service.grpc_core import grpc
from koord_serving.tls.grpc_credentials import grpc_credentials
from koord_serving.tls.server_tls import ServerTls

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
from tests.support.processes import PATIENCE

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")


def show(tls: ServerTls, made: Certificates) -> None:
    tls.use(made.certificate.read_bytes(), made.key.read_bytes(), datetime.now(UTC))


async def test_grpc_gets_the_newest_pair_too(tmp_path: Path) -> None:
    old, new = make_certificates(tmp_path / "old"), make_certificates(tmp_path / "new")
    tls = ServerTls()
    show(tls, old)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    port = server.add_secure_port("127.0.0.1:0", grpc_credentials(tls))
    await server.start()
    try:
        assert await reached(port, old.authority)
        show(tls, new)
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
            await channel.unary_unary("/a/B")(b"", timeout=PATIENCE)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
    return False
