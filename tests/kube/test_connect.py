"""How the cluster is found, and what is said where it is not."""

from __future__ import annotations

import logging
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from koord_kube.connect import ConnectError, connect
from koord_kube.protocol.resources import NODES

from tests.support.certificates import Certificates
from tests.support.kube_api import KubeApi
from tests.support.listing import listed

HOST = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}

OIDC = """
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: 'http://a'}}]
users: [{name: u, user: {token: s3cret, auth-provider: {name: oidc, config: {x: s3cret}}}}]
"""


@pytest.fixture
def account(tmp_path: Path, certificates: Certificates) -> Path:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "ca.crt").write_bytes(certificates.authority.read_bytes())
    return tmp_path


def kubeconfig(folder: Path, cluster: Any, user: Any) -> Path:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


class TestPod:
    async def test_the_service_account(self, account: Path, certificates: Certificates) -> None:
        tokens = frozenset({"s3cret"})
        async with KubeApi(tls=certificates.server_context(), tokens=tokens) as api:
            environ = HOST | {"KUBERNETES_SERVICE_PORT": str(api.port)}
            async with await connect(environ=environ, account=account) as client:
                assert await listed(client, NODES) == ([], "1000")

    async def test_an_invalid_authority(self, account: Path) -> None:
        (account / "ca.crt").write_text("nothing")
        with pytest.raises(ConnectError, match=r"ca\.crt: has no CA certificate"):
            await connect(environ=HOST, account=account)

    async def test_an_ipv6_address_and_no_library_of_kubeconfigs(
        self, account: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "kubernetes", None)
        environ = HOST | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
        client = await connect(environ=environ, account=account)
        assert client.cluster.url == "https://[fd00::1]:1"

    @pytest.mark.parametrize(
        ("missing", "reason"),
        [
            ("KUBERNETES_SERVICE_HOST", "not in a pod .*--kubeconfig"),
            ("KUBERNETES_SERVICE_PORT", "not in a pod .*--kubeconfig"),
            ("token", "token: not there; .*automount"),
            ("ca.crt", "ca.crt: not there; .*automount"),
        ],
    )
    async def test_a_part_is_missing(self, account: Path, missing: str, reason: str) -> None:
        environ = {name: value for name, value in HOST.items() if name != missing}
        (account / missing).unlink(missing_ok=True)
        with pytest.raises(ConnectError, match=reason):
            await connect(environ=environ, account=account)

    def test_a_pod_does_not_load_the_kubernetes_package(self) -> None:
        code = "import koord_kube.connect, koord_kube.informer, sys; print(*sys.modules)"
        command = [sys.executable, "-c", code]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "koord_kube.client" in loaded.stdout.split()
        assert "kubernetes" not in loaded.stdout.split()


class TestKubeconfig:
    async def test_a_token(self, tmp_path: Path, certificates: Certificates) -> None:
        tokens = frozenset({"s3cret"})
        async with KubeApi(tls=certificates.server_context(), tokens=tokens) as api:
            authority = b64encode(certificates.authority.read_bytes()).decode()
            cluster = {"server": api.url, "certificate-authority-data": authority}
            path = kubeconfig(tmp_path, cluster, {"token": "s3cret"})
            async with await connect(str(path)) as client:
                assert await listed(client, NODES) == ([], "1000")
                api.tokens = frozenset({"n3w"})
                kubeconfig(tmp_path, cluster, {"token": "n3w"})
                assert await listed(client, NODES) == ([], "1000")

    async def test_it_is_preferred_to_the_pod_s(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path, {"server": "http://there:8080/"}, {})
        client = await connect(str(path), environ=HOST)
        assert client.cluster.url == "http://there:8080"
        assert await client.cluster.credentials.header() == ""

    async def test_a_client_certificate(self, tmp_path: Path, certificates: Certificates) -> None:
        user = {
            "client-certificate": str(certificates.certificate),
            "client-key": str(certificates.key),
        }
        cluster = {"server": "https://a", "certificate-authority": str(certificates.authority)}
        assert await connect(str(kubeconfig(tmp_path, cluster, user)))
        user["client-key"] = str(certificates.authority)
        with pytest.raises(ConnectError, match="is not a valid client certificate with its key"):
            await connect(str(kubeconfig(tmp_path, cluster, user)))

    async def test_verification_stays_on(self, tmp_path: Path) -> None:
        cluster = {"server": "https://a", "insecure-skip-tls-verify": True}
        with pytest.raises(ConnectError, match="kubeconfig: insecure-skip-tls-verify is not"):
            await connect(str(kubeconfig(tmp_path, cluster, {})))

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "is not a valid kubeconfig"),
            ("[]", "is not a valid kubeconfig"),
            ("a: [s3cret", "line 1: "),
            ("users: [{name: u, user: {token: s3cret}}]", "Expected key current-context$"),
            (OIDC, "kubeconfig"),
            ("token: !!int ''", "is not a valid kubeconfig"),
        ],
    )
    async def test_an_invalid_file_is_reported_without_secrets(
        self, tmp_path: Path, text: str, reason: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        path = tmp_path / "kubeconfig"
        path.write_text(text)
        with pytest.raises(ConnectError, match=reason) as found:
            await connect(str(path))
        assert str(found.value).startswith(f"{path}: ")
        assert "\n" not in str(found.value)
        assert "s3cret" not in str(found.value) + caplog.text

    @pytest.mark.parametrize("token", ["s3cret\nX: y", "s3cret\x00", ["s3cret"]])
    async def test_a_token_that_no_header_can_have_is_reported_without_it(
        self, tmp_path: Path, token: Any
    ) -> None:
        path = kubeconfig(tmp_path, {"server": "http://127.0.0.1"}, {"token": token})
        with pytest.raises(ConnectError, match="token of its user is not one line") as found:
            await connect(str(path))
        assert "s3cret" not in str(found.value)

    async def test_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectError, match=r"/none: No such file or directory$"):
            await connect(str(tmp_path / "none"))

    async def test_its_library_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = kubeconfig(tmp_path, {"server": "http://127.0.0.1:1"}, {"token": "s3cret"})
        monkeypatch.setitem(sys.modules, "kubernetes.aio.client", None)
        with pytest.raises(ConnectError, match=rf"{path}.*pip install .kubernetes"):
            await connect(str(path))

    async def test_it_impersonates_who_is_named(self, tmp_path: Path) -> None:
        user = {
            "token": "s3cret",
            "as": "alice",
            "as-uid": "7",
            "as-groups": ["viewers", "others"],
            "as-user-extra": {"example.com/reason": ["why not"]},
        }
        seen: list[tuple[str, str]] = []

        async def serve(request: web.Request) -> web.Response:
            seen.extend(request.headers.items())
            return web.json_response({"metadata": {}, "items": []})

        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with await connect(str(kubeconfig(tmp_path, {"server": url}, user))) as client:
            await listed(client, NODES)
            cluster = client.cluster
        await runner.cleanup()
        asked = [pair for pair in seen if pair[0].startswith("Impersonate")]
        assert sorted(asked) == sorted(cluster.headers) == [
            ("Impersonate-Extra-example.com%2Freason", "why not"),
            ("Impersonate-Group", "others"),
            ("Impersonate-Group", "viewers"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-User", "alice"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("user", "reason"),
        [
            ({"as-groups": ["admins"]}, "without as"),
            ({"as": "a\nImpersonate-Group: b"}, "as is .*expected one line"),
            ({"as": "a", "as-groups": [7]}, "as-groups is"),
        ],
    )
    async def test_an_impersonation_that_is_none_is_refused(
        self, tmp_path: Path, user: Any, reason: str
    ) -> None:
        path = kubeconfig(tmp_path, {"server": "http://a"}, user | {"token": "s3cret"})
        with pytest.raises(ConnectError, match=reason):
            await connect(str(path))

    async def test_without_its_user_or_plugin_nobody_is_asked_as_nobody(
        self, tmp_path: Path
    ) -> None:
        plugin = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", "echo no such account >&2; exit 3"],
        }
        path = kubeconfig(tmp_path, {"server": "http://a"}, {"exec": plugin})
        with pytest.raises(ConnectError, match=r"plugin failed: .*no such account"):
            await connect(str(path))
        path.write_text(path.read_text().replace("name: u", "name: v"))
        with pytest.raises(ConnectError, match='there is no user "u"'):
            await connect(str(path))

    @pytest.mark.parametrize(
        ("server", "user", "is_sent"),
        [
            ("http://there:8080", {"token": "s3cret"}, False),
            ("HTTP://[2001:db8::1]:8080", {"token": "s3cret"}, False),
            ("http://127.0.0.1.there", {"token": "s3cret"}, False),
            ("http://127.0.0.1:8001", {"token": "s3cret"}, True),
            ("http://[::1]:8001", {"token": "s3cret"}, True),
            ("http://localhost:8001", {"token": "s3cret"}, True),
            ("http://there:8080", {}, True),
        ],
    )
    async def test_no_token_leaves_the_machine_unencrypted(
        self, tmp_path: Path, server: str, user: Any, is_sent: bool
    ) -> None:
        path = kubeconfig(tmp_path, {"server": server}, user)
        if is_sent:
            assert (await connect(str(path))).cluster.url == server
            return
        with pytest.raises(ConnectError, match="a token is not sent over plain HTTP") as found:
            await connect(str(path))
        assert "s3cret" not in str(found.value)

    async def test_several_files_and_a_context(self, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        first = kubeconfig(tmp_path, {"server": "https://first"}, {"token": "one"})
        second = kubeconfig(tmp_path / "b", {"server": "https://second"}, {"token": "two"})
        second.write_text(
            "current-context: d\n"
            "contexts: [{name: d, context: {cluster: l, user: u}}]\n"
            "clusters: [{name: l, cluster: {server: 'https://second'}}, {name: k, cluster: {}}]\n"
            "users: [{name: u, user: {token: two}}]\n"
        )
        both = f"{tmp_path / 'gone'}:{first}:{second}"
        assert (await connect(both)).cluster.url == "https://first"
        other = await connect(both, context="d")
        assert other.cluster.url == "https://second"
        # The first file that has the user counts, as for kubectl.
        assert await other.cluster.credentials.header() == "Bearer one"
        with pytest.raises(ConnectError, match="Expected object with name e"):
            await connect(both, context="e")
