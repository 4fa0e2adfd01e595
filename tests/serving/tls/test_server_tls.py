from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from koord_serving.tls.core.certificates import CA_CERT, CERT, KEY
from koord_serving.tls.server_tls import CertificateError, CertificatePair, ListenerTls, ServerTls

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
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

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=ListenerTls(tls).context)
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
    assert tls.problem(now()) == "there is no certificate yet"
    assert tls.expiry() is None
    async with listening(tls) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown(port, made[CA_CERT])
        tls.use(made[CERT], made[KEY], now())
        await shown(port, made[CA_CERT])


def test_a_client_of_old_versions_is_refused() -> None:
    assert ListenerTls(ServerTls()).context.minimum_version is ssl.TLSVersion.TLSv1_2


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
    assert tls.problem(now()) == ""
    assert "ended at" in tls.problem(now() + timedelta(days=400))
    async with listening(tls) as port:
        await shown(port, made[CA_CERT])


def test_keys_are_not_printed() -> None:
    assert "SECRET" not in repr(CertificatePair(b"", b"SECRET"))


needs_openssl = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")


class Served:
    """A server that says whom it has seen, and its clients."""

    def __init__(self, server: Certificates) -> None:
        self.tls = ServerTls()
        self.listener = ListenerTls(self.tls, asks=True)
        self.show(server)

    def show(self, made: Certificates) -> None:
        self.tls.use(made.certificate.read_bytes(), made.key.read_bytes(), now())
        self._authority = made.authority

    def trust(self, clients: Certificates) -> None:
        self.listener.trust(clients.authority.read_text())

    def client(self, own: Certificates | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._authority)
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"known" if writer.get_extra_info("peercert") else b"unknown")
            writer.close()
            # A session that is not ended in order could not be resumed.
            await writer.wait_closed()

        server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=self.listener.context)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


async def said(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[str, ssl.SSLSession | None]:
    """What the server says, and the session to be resumed; "hung up" where it did."""
    return await asyncio.to_thread(_said, port, context, session)


def _said(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[str, ssl.SSLSession | None]:
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        try:
            with context.wrap_socket(
                plain, server_hostname="localhost", session=session
            ) as connection:
                found = connection.recv(100).decode()
                if not found:  # whether there is an alert depends on the version of Python
                    return "hung up", None
                kept = connection.session
                connection.unwrap()
                return found, kept
        except ssl.SSLCertVerificationError:
            raise
        except (ssl.SSLError, ConnectionError):
            return "hung up", None


@needs_openssl
async def test_clients_are_known_by_the_authority_of_the_moment(tmp_path: Path) -> None:
    server, other, first, second = (make_certificates(tmp_path / one) for one in "soab")
    served = Served(server)
    served.trust(first)
    async with served.open() as port:
        assert (await said(port, served.client(first)))[0] == "known"
        assert (await said(port, served.client()))[0] == "unknown"
        assert (await said(port, served.client(second)))[0] == "hung up"
        served.trust(second)
        assert (await said(port, served.client(second)))[0] == "known"
        assert (await said(port, served.client(first)))[0] == "hung up"
        served.show(other)
        assert (await said(port, served.client(second)))[0] == "known"


@needs_openssl
async def test_without_an_authority_nobody_is_known_and_a_bad_one_leaves_the_one_before(
    tmp_path: Path,
) -> None:
    server, other, client = (make_certificates(tmp_path / one) for one in "soc")
    served = Served(server)
    async with served.open() as port:
        assert (await said(port, served.client(client)))[0] == "hung up"
        assert (await said(port, served.client()))[0] == "unknown"
        served.trust(client)
        for pem in ("", "nonsense", "-----BEGIN CERTIFICATE-----", "Autorité"):
            with pytest.raises(CertificateError, match="clients' authority cannot be used") as no:
                served.listener.trust(pem)
            assert not pem or pem not in str(no.value)
        served.show(other)
        assert (await said(port, served.client(client)))[0] == "known"


@needs_openssl
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_resumed_session_brings_no_certificate_back(
    version: ssl.TLSVersion, tmp_path: Path
) -> None:
    server, first, second = (make_certificates(tmp_path / one) for one in "sab")
    served = Served(server)
    served.trust(first)
    client = served.client(first)
    client.minimum_version = client.maximum_version = version
    async with served.open() as port:
        found, session = await said(port, client)
        assert session is not None
        assert (found, session.has_ticket) == ("known", False)
        served.trust(second)
        assert (await said(port, client, session))[0] == "hung up"
        served.trust(first)
        assert (await said(port, client))[0] == "known"
