from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from koord_manager.serving.certificates import CA_CERT, CERT, KEY
from koord_manager.serving.tls import CertificateError, ServerTls

from tests.support.serving import NAME, issued, trusting


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def listening(tls: ServerTls) -> AsyncIterator[int]:
    """Says "hello" to each line, on a port of loopback."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(b"hello\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=tls.context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def shown(
    port: int, authority: bytes, name: str = NAME, version: ssl.TLSVersion | None = None
) -> bytes:
    """The certificate (DER) that a client which trusts the authority is shown."""
    context = trusting(authority)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return found


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", [NAME, "127.0.0.1"])
async def test_new_connections_see_the_new_certificate_and_old_ones_stay(
    version: ssl.TLSVersion, name: str
) -> None:
    """By address there is no name in the handshake."""
    tls, before, after = ServerTls(), issued(), issued()
    assert tls.use(before[CERT], before[KEY], now())
    async with listening(tls) as port:
        context = trusting(before[CA_CERT])
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=name
        )
        old = await shown(port, before[CA_CERT], name, version)
        assert tls.use(after[CERT], after[KEY], now())
        assert not tls.use(after[CERT], after[KEY], now())
        assert await shown(port, after[CA_CERT], name, version) != old
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown(port, before[CA_CERT], name, version)
        writer.write(b"still there?\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        await writer.wait_closed()


def test_so_it_is_on_the_loop_that_the_manager_runs_on() -> None:
    uvloop.run(
        test_new_connections_see_the_new_certificate_and_old_ones_stay(ssl.TLSVersion.TLSv1_3, NAME)
    )


async def test_an_rsa_certificate_gives_way_to_an_ecdsa_one(tmp_path: Path) -> None:
    """One context holds one of each kind, and a client that prefers RSA would get the old one."""
    made, rsa = issued(), tmp_path / "rsa"
    rsa.mkdir()
    files = ["-keyout", f"{rsa}/key", "-out", f"{rsa}/cert", "-subj", "/CN=old"]
    san = ["-addext", f"subjectAltName=DNS:{NAME}"]
    process = await asyncio.create_subprocess_exec(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"), *files, *san,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await process.wait() == 0
    old_certificate, old_key = (rsa / "cert").read_bytes(), (rsa / "key").read_bytes()
    tls = ServerTls()
    tls.use(old_certificate, old_key, now())
    async with listening(tls) as port:
        await shown(port, old_certificate)
        tls.use(made[CERT], made[KEY], now())
        await shown(port, made[CA_CERT])
        picky = trusting(made[CA_CERT] + old_certificate)
        picky.maximum_version = ssl.TLSVersion.TLSv1_2
        picky.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=picky, server_hostname=NAME)


async def test_without_a_certificate_handshakes_fail_and_nothing_else() -> None:
    tls, made = ServerTls(), issued()
    assert tls.trouble(now()) == "there is no certificate yet"
    assert tls.expiry() is None
    async with listening(tls) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown(port, made[CA_CERT])
        tls.use(made[CERT], made[KEY], now())
        await shown(port, made[CA_CERT])


def test_a_client_of_old_versions_is_refused() -> None:
    assert ServerTls().context.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_what_cannot_be_shown_leaves_the_one_before() -> None:
    tls, made, other = ServerTls(), issued(), issued()
    ended = issued(timedelta(days=800))
    tls.use(made[CERT], made[KEY], now())
    for certificate, key in [
        (b"", b""),
        (made[CERT], other[KEY]),
        (b"nonsense", made[KEY]),
        (ended[CERT], ended[KEY]),
    ]:
        with pytest.raises(CertificateError, match="cannot be used") as caught:
            tls.use(certificate, key, now())
        assert "-----" not in str(caught.value)
    assert tls.trouble(now()) == ""
    assert "ended at" in tls.trouble(now() + timedelta(days=400))
    async with listening(tls) as port:
        await shown(port, made[CA_CERT])


def test_no_descriptor_stays() -> None:
    before = len(os.listdir("/proc/self/fd"))
    tls = ServerTls()
    for _ in range(5):
        made = issued()
        tls.use(made[CERT], made[KEY], now())
    assert len(os.listdir("/proc/self/fd")) == before
