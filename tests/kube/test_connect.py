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
