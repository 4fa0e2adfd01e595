"""Status pages for the network: over TLS, to those who may, and nobody keeps others waiting."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_service import page_server
from koord_service.certificate_files import CertificateFiles
from koord_service.status import Access, StatusPage, StatusServer, is_local

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
from tests.support.processes import PATIENCE

PAGES: Any = {
    "/metrics": lambda _: StatusPage(b"up 1\n"),
    "/secret": lambda _: StatusPage(b"names\n"),
}
PUBLIC: Any = {"/metrics": lambda _: StatusPage(b"up 1\n")}


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    if not HAVE_OPENSSL:
        pytest.skip("needs openssl")
    return make_certificates(tmp_path / "certificates")


@pytest.fixture
def from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody is taken for one on another machine: a test has but this one."""
    monkeypatch.setattr(page_server, "peer_host", lambda _: "192.0.2.7")


@contextlib.contextmanager
def serving(address: str = "127.0.0.1:0", **access: Any) -> Iterator[int]:
    """The port."""
    server = StatusServer(address, PAGES, network=True, access=Access(**access))
    server.start()
    try:
        yield int(server.address.rpartition(":")[2])
    finally:
        server.stop()


def files(made: Certificates, warnings: list[str] | None = None) -> CertificateFiles:
    said = [] if warnings is None else warnings
    return CertificateFiles(made.certificate, made.key, said.append)


def get(port: int, path: str = "/metrics", tls: ssl.SSLContext | None = None, **headers: str):
    connection: http.client.HTTPConnection
    if tls is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=tls)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def trusting(made: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=made.authority)


@pytest.mark.parametrize("local", [True, False])
def test_is_local(local: bool) -> None:
    here = ("127.0.0.1:9316", "localhost:1", "[::1]:1", "/run/s.sock", "unix:///run/s.sock")
    elsewhere = (":9316", "0.0.0.0:1", "[::]:1", "10.0.0.1:1")
    assert {is_local(address) for address in (here if local else elsewhere)} == {local}


def test_a_page_over_tls(certificates: Certificates, from_elsewhere: None) -> None:
    with serving(tls=files(certificates).context) as port:
        assert get(port, tls=trusting(certificates)) == (200, b"up 1\n")
        # Who does not know the authority, or speaks plain HTTP, gets nothing.
        with pytest.raises(ssl.SSLCertVerificationError):
            get(port, tls=ssl.create_default_context())
        with pytest.raises((http.client.HTTPException, OSError)):
            get(port)
        assert get(port, tls=trusting(certificates))[0] == 200


def test_on_the_node_no_tls_and_no_token_is_needed(certificates: Certificates) -> None:
    # A kubelet's probes of the loopback address, and people.
    with serving(
        tls=files(certificates).context, admit=lambda *_: StatusPage(b"", status=401)
    ) as port:
        assert get(port, "/secret") == (200, b"names\n")
        assert get(port, "/secret", tls=trusting(certificates)) == (200, b"names\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_gets_it_too(certificates: Certificates) -> None:
    with serving(tls=files(certificates).context) as port:
        url = f"https://127.0.0.1:{port}/metrics"
        command = ["curl", "-sS", "--noproxy", "*", "--cacert", certificates.authority, url]
        done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"up 1\n", b"")


def test_a_stalled_handshake_is_hung_up_on(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, from_elsewhere: None
) -> None:
    monkeypatch.setattr(page_server, "_HANDSHAKE_SECONDS", 0.2)
    with (
        serving(tls=files(certificates).context) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as silent,
        contextlib.suppress(ConnectionResetError),
    ):
        assert silent.recv(1) == b""


def test_a_renewed_certificate_is_served_at_once(
    certificates: Certificates, tmp_path: Path
) -> None:
    warnings: list[str] = []
    renewed = make_certificates(tmp_path / "renewed")
    with serving(tls=files(certificates, warnings).context) as port:
        assert get(port, tls=trusting(certificates))[0] == 200
        os.replace(renewed.certificate, certificates.certificate)
        # Half of a pair is none: the last good one is served on, and that is reported once.
        for _ in range(3):
            assert get(port, tls=trusting(certificates))[0] == 200
        assert len(warnings) == 1
        assert str(certificates.certificate) in warnings[0]
        os.replace(renewed.key, certificates.key)
        assert get(port, tls=trusting(renewed))[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            get(port, tls=trusting(certificates))
        certificates.key.unlink()
        assert get(port, tls=trusting(renewed))[0] == 200
        assert len(warnings) == 2


@pytest.mark.parametrize("broken", ["missing", "garbage", "encrypted"])
def test_no_certificate_to_begin_with(certificates: Certificates, broken: str) -> None:
    key = certificates.key
    if broken == "missing":
        key.unlink()
    elif broken == "garbage":
        key.write_text("-----BEGIN")
    else:
        more = ["-aes256", "-passout", "pass:x", "-out", str(key) + ".x"]
        subprocess.run(["openssl", "pkey", "-in", str(key), *more], check=True)
        os.replace(str(key) + ".x", key)
    with pytest.raises(ValueError, match=str(key)) as refused:
        files(certificates)
    assert len(str(refused.value).splitlines()) == 1


def test_who_is_admitted(from_elsewhere: None) -> None:
    def admit(authorization: str, path: str) -> StatusPage | None:
        return (
            None
            if (authorization, path) == ("Bearer t", "/metrics")
            else StatusPage(b"", status=401)
        )

    with serving(admit=admit) as port:
        assert get(port, Authorization="Bearer t") == (200, b"up 1\n")
        assert get(port)[0] == 401
        assert get(port, "/secret", Authorization="Bearer t")[0] == 401
        # What there is is not reported either.
        assert get(port, "/nothing")[0] == 401


def test_other_machines_get_the_public_pages_alone(from_elsewhere: None) -> None:
    with serving(public=PUBLIC) as port:
        assert get(port, Host="node-1:9316") == (200, b"up 1\n")
        code, body = get(port, "/secret", Host="127.0.0.1")
        assert code == 404
        assert b"names" not in body
        assert b"/secret" not in body


@pytest.mark.parametrize("address", ["127.0.0.1:0", ":0"])  # the second has ::ffff:127.0.0.1
def test_people_on_the_node_get_all_pages_under_its_own_name_alone(address: str) -> None:
    with serving(address, public=PUBLIC) as port:
        assert get(port, "/secret") == (200, b"names\n")
        # A browser on the node that was led here by a name of elsewhere.
        assert get(port, "/secret", Host="evil.example")[0] == 403


def test_one_peer_cannot_hold_all_connections(
    monkeypatch: pytest.MonkeyPatch, from_elsewhere: None
) -> None:
    monkeypatch.setattr(page_server.PageHandler, "timeout", 2 * PATIENCE)
    with serving() as port, contextlib.ExitStack() as open_ones:
        held = []
        for _ in range(page_server._OF_ONE_PEER + 1):
            silent = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            open_ones.enter_context(contextlib.closing(silent))
            held.append(silent)
        assert held[0].recv(1) == b""
        # A kubelet whose address a slow client has as well.
        assert get(port)[0] == 200


def test_stalled_handshakes_keep_nobody_out(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, from_elsewhere: None
) -> None:
    monkeypatch.setattr(page_server, "_HANDSHAKE_SECONDS", 2 * PATIENCE)
    with serving(tls=files(certificates).context) as port, contextlib.ExitStack() as open_ones:
        for _ in range(2 * page_server._OF_ONE_PEER):
            silent = socket.create_connection(("127.0.0.1", port))
            open_ones.enter_context(contextlib.closing(silent))
            silent.sendall(b"\x16\x03\x01")  # and no more of its hello
        assert get(port, tls=trusting(certificates)) == (200, b"up 1\n")
