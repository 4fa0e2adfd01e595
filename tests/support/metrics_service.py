"""A manager's node metric service on loopback, over TLS, beside a double of the API server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from koord_kube.client import Client, Cluster
from koord_kube.credentials import TokenFile, server_context
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_manager.node_metric.core.store import NodeIdentity
from koord_manager.node_metric.service import NodeDirectory, NodeMetricService, NodeMetricTiming
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_serving.tls.server_tls import ServerTls
from koordlet.metrics_reporter.direct_link import DirectLink
from prometheus_client import CollectorRegistry

from tests.support.certificates import Certificates, make_certificates
from tests.support.kube_api import Identity, Reviews, front_proxy_config_map, koordlet_account
from tests.support.processes import PATIENCE
from tests.support.service_account_tokens import unsigned_token

ACCOUNT = "koordinator-system/koordlet"
READER = "reader-token"
READS = {
    "verbs": ["get", "list", "watch"],
    "apiGroups": ["metrics.koordinator.sh"],
    "resources": ["nodemetrics"],
}
DISCOVERS = {"verbs": ["get"], "nonResourceURLs": ["/api*", "/openapi*", "/version*"]}
STATUS = b'{"nodeMetric":{"nodeUsage":{"resources":{"cpu":"1500m","memory":"2Gi"}}}}'


@dataclass
class Manager:
    """``nodes`` are those of the cluster; time moves with ``now``."""

    folder: Path
    certificates: Certificates
    front: Certificates
    reviews: Reviews = field(default_factory=Reviews)
    leads: bool = False
    nodes: dict[str, NodeIdentity] = field(default_factory=dict)
    all_known: bool = True
    strategies: dict[str, ColocationStrategy] = field(default_factory=dict)
    now: float = 1000.0
    wall: float = 1_790_000_000.0
    heard: list[tuple[str, bytes, float]] = field(default_factory=list)
    recorder: Any = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.reviews.access.identities[READER] = Identity("reader", ("readers",))
        self.reviews.access.grant("readers", READS, DISCOVERS)
        configured = front_proxy_config_map(self.front.authority.read_text(), "", "server")
        self.reviews.put(CONFIG_MAPS, configured, "kube-system")
        self.tls = ServerTls()
        self.show(self.certificates)
        self.service = NodeMetricService(
            self.reviews.api,
            lambda: self.leads,
            self.tls,
            NodeDirectory(
                lambda: self.nodes if self.all_known else None,
                self.nodes.get,
                lambda node: self.strategies.get(node, ColocationStrategy()),
                lambda *one: self.heard.append(one),
            ),
            ACCOUNT,
            self.registry,
            recorder=self.recorder,
            timing=NodeMetricTiming(stale=180),
            monotonic=lambda: self.now,
            clock=lambda: self.wall + self.now,
        )

    def show(self, made: Certificates) -> None:
        """These are the server's from now on."""
        self.certificates = made
        self.tls.use(made.certificate.read_bytes(), made.key.read_bytes(), datetime.now(UTC))

    async def start(self) -> None:
        await self.service.start(("127.0.0.1", 0), ("127.0.0.1", 0))

    def lead(self, term: int, *, settled: bool = True) -> None:
        self.leads = True
        self.service.lead(term)
        if settled:
            self.now += 75

    def resign(self) -> None:
        self.leads = False
        self.service.resign()

    def put(self, *names: str, status: bytes = STATUS) -> None:
        """As if these nodes had reported."""
        for name in names:
            self.service.store.put(name, status, self.now, self.wall + self.now)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.service.api_port}"

    @property
    def trust(self) -> ssl.SSLContext:
        return server_context(self.certificates.authority)

    def client(self, token: str = READER) -> Client:
        file = self.folder / f"token-{token}"
        file.write_text(token)
        return Client(Cluster(self.url, TokenFile(file), self.trust))

    def koordlet_of(self, node: str) -> str:
        """The token of a koordlet that runs there."""
        token = unsigned_token(node)
        account = koordlet_account(node, pod=f"pod-{node}")
        self.reviews.access.identities[token] = account
        return token

    def link(self, node: str, token: str, *, ca: Path | None = None) -> DirectLink:
        file = self.folder / f"token-{token[-200:]}"
        file.write_text(token)
        return DirectLink(
            f"localhost:{self.service.report_port}",
            node,
            ca_file=str(ca or self.certificates.authority),
            credentials=TokenFile(file),
            attempt_seconds=PATIENCE,
        )


def make_manager(folder: Path, **more: Any) -> Manager:
    folder.mkdir(parents=True, exist_ok=True)
    return Manager(
        folder, make_certificates(folder / "server"), make_certificates(folder / "front"), **more
    )
