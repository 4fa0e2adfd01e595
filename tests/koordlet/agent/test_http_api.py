"""koordlet's metrics for a Prometheus outside the node."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from koord_kube.client import Client, Cluster
from koord_service import page_server
from koord_service.settings import SettingsError, parse
from koord_service.status import StatusPage
from koordlet.agent.config import KoordletSettings
from koordlet.agent.http_api import open_servers

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
from tests.support.kube_api import Identity, KubeApi
from tests.support.processes import PATIENCE

READS = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}


def ailing(_: Any) -> StatusPage:
    return StatusPage(b'{"reasons": ["API server: 10.0.0.1 refused"]}', status=503)


PAGES: Any = {
    "/metrics": lambda _: StatusPage(b"up 1\n"),
    "/events": lambda _: StatusPage(b"all that was changed\n"),
    "/healthz": ailing,
    "/readyz": lambda _: StatusPage(b'{"status": "ok"}'),
}


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    if not HAVE_OPENSSL:
        pytest.skip("needs openssl")
    return make_certificates(tmp_path / "certificates")


@pytest.fixture
def from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "peer_host", lambda _: "192.0.2.7")


def read(*arguments: str) -> KoordletSettings:
    return parse(KoordletSettings, prog="koordlet", description="", argv=arguments, environ={})


def tls_flags(made: Certificates) -> list[str]:
    return [
        f"--metrics-tls-cert-file={made.certificate}",
        f"--metrics-tls-private-key-file={made.key}",
    ]


class Scraper:
    """Asks as Prometheus does."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        self._host = "127.0.0.1"  # whichever addresses are listened on
        self._port, self._tls = int(address.rpartition(":")[2]), tls

    async def get(self, path: str, token: str = "") -> tuple[int, bytes, str]:
        return await asyncio.to_thread(self._get, path, token)

    def _get(self, path: str, token: str) -> tuple[int, bytes, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection: http.client.HTTPConnection
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE)
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=PATIENCE, context=self._tls
            )
        with closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("WWW-Authenticate", "")


@asynccontextmanager
async def serving(
    settings: KoordletSettings, cluster: Any = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Scraper]:
    [server] = open_servers(replace(settings, status_address="none"), PAGES, cluster)
    server.start()
    try:
        yield Scraper(server.address, tls)
    finally:
        server.stop()


@pytest.mark.usefixtures("from_elsewhere")
async def test_tokens_are_reviewed(certificates: Certificates) -> None:
    settings = read("--addr=0.0.0.0:0", "--metrics-token-review", *tls_flags(certificates))
    tls = ssl.create_default_context(cafile=certificates.authority)
    complaints: list[str] = []
    async with KubeApi() as api, Client(Cluster(api.url)) as client:
        api.access.identities["prometheus"] = Identity("prometheus", ("scrapers",))
        api.access.identities["jane"] = Identity("jane")
        api.access.grant("scrapers", READS)
        cluster = SimpleNamespace(client=client, complain=complaints.append)
        async with serving(settings, cluster, tls) as scraper:
            assert await scraper.get("/metrics", "prometheus") == (200, b"up 1\n", "")
            assert (await scraper.get("/metrics"))[::2] == (401, "Bearer")
            assert (await scraper.get("/metrics", "unknown"))[::2] == (401, "Bearer")
            code, body, _ = await scraper.get("/metrics", "jane")
            assert code == 403
            assert b'"jane" cannot get /metrics' in body
            assert (await scraper.get("/events", "prometheus"))[0] == 403
            # The kubelet has no token.
            assert (await scraper.get("/readyz"))[0] == 200
            assert complaints == []
            api.fail(verb="create", status=500, message="etcd at 10.0.0.2 is full", times=9)
            code, body, _ = await scraper.get("/metrics", "another")
            assert code == 503
            assert b"etcd" not in body
            [line] = complaints
            assert "etcd" in line


@pytest.mark.usefixtures("from_elsewhere")
async def test_the_network_is_served_metrics_and_probes_alone(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(read("--addr=:0")) as scraper:
        assert (await scraper.get("/metrics"))[:2] == (200, b"up 1\n")
        assert (await scraper.get("/events"))[0] == 404
        assert (await scraper.get("/readyz"))[:2] == (200, b"ok\n")
        # Why not is reported on the node.
        assert (await scraper.get("/healthz"))[:2] == (503, b"not ok\n")
    [record] = [one for one in caplog.records if "clear text" in one.getMessage()]
    assert record.levelname == "WARNING"
    caplog.clear()
    async with serving(read("--addr=:0", *tls_flags(certificates))):
        pass
    assert caplog.records == []


async def test_the_node_is_served_all_pages(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(read("--addr=127.0.0.1:0")) as scraper:
        assert (await scraper.get("/events"))[0] == 200
        code, body, _ = await scraper.get("/healthz")
        assert (code, b"10.0.0.1" in body) == (503, True)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--metrics-token-review"], "--metrics-address"),
        (["--addr=:1", "--metrics-token-review"], "--metrics-tls-cert-file"),
        (["--addr=:1", "--metrics-tls-cert-file=/x"], "--metrics-tls-private-key-file"),
        (["--addr=:1", "--metrics-tls-private-key-file=/x"], "--metrics-tls-cert-file"),
        (["--metrics-tls-cert-file=/x", "--metrics-tls-private-key-file=/y"], "--metrics-address"),
        (["--addr=9316"], "--metrics-address"),
        (["--addr=127.0.0.1:1", "--metrics-token-review"], "network"),
        (["--addr=/s", "--metrics-tls-cert-file=/x", "--metrics-tls-private-key-file=/y"], "netw"),
    ],
)
def test_settings_that_contradict(flags: list[str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        read(*flags)


async def test_a_review_without_a_cluster_is_refused(certificates: Certificates) -> None:
    settings = read("--addr=:0", "--metrics-token-review", *tls_flags(certificates))
    with pytest.raises(ValueError, match="--metrics-token-review needs a cluster"):
        open_servers(settings, PAGES, None)
