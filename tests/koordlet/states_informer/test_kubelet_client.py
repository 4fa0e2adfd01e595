from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from koord_kube.credentials import TokenFile
from koordlet.states_informer.kubelet_client import KubeletClient, PodFile, open_pod_source

from tests.support.certificates import (
    HAVE_OPENSSL,
    Certificates,
    make_certificates,
    make_self_signed,
)
from tests.support.kubelet_server import KubeletServer
from tests.support.ports import free_port
from tests.support.processes import PATIENCE

PODS = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}).encode()


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    if not HAVE_OPENSSL:
        pytest.skip("needs openssl")
    return make_certificates(tmp_path / "certificates")


@pytest.fixture
def account(tmp_path: Path, certificates: Certificates) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("s3cret\n")
    (folder / "ca.crt").write_bytes(certificates.authority.read_bytes())
    return folder


@pytest.fixture
async def secure(certificates: Certificates) -> AsyncIterator[KubeletServer]:
    async with KubeletServer(certificates.server_context()) as kubelet:
        kubelet.tokens = frozenset({"s3cret"})
        yield kubelet


@pytest.fixture
async def plain() -> AsyncIterator[KubeletServer]:
    async with KubeletServer() as kubelet:
        yield kubelet


@asynccontextmanager
async def asking(url: str, account: Path, **more: Any) -> AsyncIterator[KubeletClient]:
    more.setdefault("timeout", PATIENCE)
    made = KubeletClient(f"{url}/pods/", account=account, **more)
    try:
        yield made
    finally:
        await made.close()


class TestSecure:
    async def test_pods_and_configuration(self, secure, account):
        async with asking(secure.url, account) as client:
            assert await client.pods() == PODS
            assert "kubeletconfig" in json.loads(await client.configz())
        assert secure.asked == [("/pods/", "s3cret"), ("/configz", "s3cret")]

    async def test_the_connection_is_kept(self, secure, account):
        async with asking(secure.url, account) as client:
            for _ in range(3):
                await client.pods()
        assert len(secure.connections) == 1

    async def test_who_we_are_to_the_cluster_we_are_to_the_kubelet(self, secure, account, tmp_path):
        (tmp_path / "ours").write_text("0urs\n")
        secure.tokens = {"0urs"}
        async with asking(secure.url, account, credentials=TokenFile(tmp_path / "ours")) as client:
            assert await client.pods() == PODS

    async def test_a_token_that_was_replaced(self, secure, account):
        async with asking(secure.url, account) as client:
            await client.pods()
            (account / "token").write_text("n3w\n")
            secure.tokens = {"n3w"}
            assert await client.pods() == PODS
        assert [token for _, token in secure.asked] == ["s3cret", "s3cret", "n3w"]

    async def test_a_token_that_is_no_good(self, secure, account, caplog):
        caplog.set_level(logging.DEBUG)
        secure.tokens = {"other"}
        async with asking(secure.url, account) as client:
            with pytest.raises(OSError, match=r"/pods/: 401 .*token is not accepted") as found:
                await client.pods()
        assert len(secure.asked) == 2
        assert "s3cret" not in str(found.value) + repr(found.value.__context__) + caplog.text

    async def test_a_self_signed_certificate_says_the_way_out(self, account, tmp_path):
        alone = make_self_signed(tmp_path / "alone")
        async with KubeletServer(alone.server_context()) as kubelet:
            async with asking(kubelet.url, account) as client:
                with pytest.raises(OSError, match="--kubelet-ca-file") as found:
                    await client.pods()
            assert str(found.value) == (
                f"{kubelet.url}/pods/: the certificate is not trusted: self-signed certificate; "
                "give who signed it (--kubelet-ca-file), or use the read-only port over http"
            )
            assert kubelet.asked == []
            kubelet.tokens = frozenset({"s3cret"})
            async with asking(kubelet.url, account, ca_file=str(alone.authority)) as client:
                assert await client.pods() == PODS

    async def test_another_address(self, account, tmp_path):
        other = make_certificates(tmp_path / "other", "IP:127.0.0.2,DNS:localhost")
        (account / "ca.crt").write_bytes(other.authority.read_bytes())
        async with KubeletServer(other.server_context()) as kubelet:
            async with asking(kubelet.url, account) as client:
                with pytest.raises(OSError, match=r"IP address mismatch.*-preferred-address-type"):
                    await client.pods()
            kubelet.tokens = frozenset({"s3cret"})
            by_name = kubelet.url.replace("127.0.0.1", "localhost")
            async with asking(by_name, account) as client:
                assert await client.pods() == PODS

    async def test_an_authority_that_was_replaced(self, secure, account, certificates, tmp_path):
        old = make_certificates(tmp_path / "old").authority
        (account / "ca.crt").write_bytes(old.read_bytes())
        async with asking(secure.url, account) as client:
            with pytest.raises(OSError, match="not trusted"):
                await client.pods()
            (account / "ca.crt").write_bytes(certificates.authority.read_bytes())
            assert await client.pods() == PODS

    async def test_an_authority_that_is_none(self, secure, account):
        (account / "ca.crt").write_text("nothing")
        async with asking(secure.url, account) as client:
            with pytest.raises(OSError, match=r"ca\.crt: has no CA certificate"):
                await client.pods()

    async def test_no_account_is_no_token(self, secure, tmp_path):
        async with asking(secure.url, tmp_path) as client:
            with pytest.raises(OSError, match="not trusted"):
                await client.pods()


class TestPlain:
    async def test_no_token_goes_over_http_and_no_proxy_is_used(self, plain, account, monkeypatch):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        async with asking(plain.url, account) as client:
            assert await client.pods() == PODS
        assert plain.asked == [("/pods/", "")]

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ({"status": 302, "headers": {"Location": "/elsewhere"}}, "302 Found"),
            ({"status": 500}, "500 Internal"),
            ({"status": 403}, "403 Forbidden; [^\n]*nodes/pods"),
            ({"status": 403, "body": b"\xff" * (1 << 22)}, "403 Forbidden; [^\n]*nodes/pods"),
            ({"body": b"12345678901234567890"}, "longer than 15 bytes"),
        ],
        ids=["elsewhere", "500", "403", "a long refusal", "a long list"],
    )
    async def test_refusals(self, plain, tmp_path, answer, reason):
        plain.answer = lambda: web.Response(**answer)
        async with asking(plain.url, tmp_path, most=15) as client:
            with pytest.raises(OSError, match=f"^{plain.url}/pods/: {reason}"):
                await client.pods()
        assert len(plain.asked) == 1

    @pytest.mark.parametrize(
        ("words", "right", "other"),
        [
            # A kubelet of 1.36, of 1.32 and of 1.28.
            ("resource=nodes, subresource(s)=[pods proxy])\n", "nodes/pods", "nodes/proxy"),
            ("resource=nodes, subresource(s)=[configz proxy])\n", "nodes/configz", "nodes/proxy"),
            ("resource=nodes, subresource(s)=[proxy])\n", "nodes/proxy", "nodes/pods"),
            ("resource=nodes, subresource=proxy)", "nodes/proxy", "nodes/pods"),
        ],
    )
    async def test_the_right_that_is_missing_is_named(self, plain, tmp_path, words, right, other):
        text = f"Forbidden (user=u, verb=get, {words}"
        plain.answer = lambda: web.Response(status=403, text=text)
        async with asking(plain.url, tmp_path) as client:
            with pytest.raises(OSError, match=r"403 Forbidden; ") as caught:
                await client.pods()
        line = str(caught.value)
        assert right in line
        assert other not in line
        assert "\n" not in line

    async def test_a_kubelet_that_hangs(self, plain, tmp_path):
        plain.slow = PATIENCE
        async with asking(plain.url, tmp_path, timeout=1.0) as client:
            with pytest.raises(OSError, match=r"/pods/: no answer in 1 s"):
                await client.pods()
            plain.slow = 0.0
            assert await client.pods() == PODS

    async def test_nobody_listens(self, tmp_path):
        url = f"http://127.0.0.1:{free_port()}"
        async with asking(url, tmp_path) as client:
            with pytest.raises(OSError, match=f"^{url}/pods/: .*: Connection refused$"):
                await client.pods()

    async def test_a_kubelet_that_restarts(self, plain, tmp_path):
        async with asking(plain.url, tmp_path) as client:
            await client.pods()
            for transport in plain.connections:
                transport.abort()
            assert await client.pods() == PODS


class TestFile:
    async def test_its_text(self, tmp_path):
        path = tmp_path / "pods.json"
        path.write_bytes(PODS)
        source = open_pod_source(str(path))
        assert (await source.pods(), source.name) == (PODS, str(path))
        await source.close()

    async def test_what_is_not_there_or_too_long(self, tmp_path):
        with pytest.raises(OSError, match=r"/none: No such file or directory$"):
            await PodFile(str(tmp_path / "none")).pods()
        (tmp_path / "long").write_bytes(b"12345")
        with pytest.raises(OSError, match=r"/long: longer than 4 bytes$"):
            await PodFile(str(tmp_path / "long"), most=4).pods()
        (tmp_path / "long").write_bytes(b"1234")
        assert await PodFile(str(tmp_path / "long"), most=4).pods() == b"1234"

    def test_a_file_needs_no_client(self):
        code = "import koordlet.states_informer.kubelet_client, sys; print(*sys.modules)"
        command = [sys.executable, "-c", code]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "aiohttp" not in loaded.stdout.split()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("/a/file", PodFile), ("http://a/pods", KubeletClient), ("https://a/pods", KubeletClient)],
)
def test_where_pods_are(name, kind):
    assert type(open_pod_source(name)) is kind
