"""A webhooks' server on loopback with certificates of its own, and a client that checks them."""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.callers import WebhookCallers
from koord_serving.admission.core.admission import ADMITTED, Webhook
from koord_serving.admission.core.caller_rules import CallerRules
from koord_serving.admission.handler import AdmissionLimits
from koord_serving.admission.server import AdmissionServer
from koord_serving.tls.core import certificates
from koord_serving.tls.server_tls import ServerTls
from prometheus_client import CollectorRegistry

NAME = "koordinator-webhook-service.koordinator-system.svc"
NAMES = (NAME, "localhost", "127.0.0.1")


def issued(ago: timedelta = timedelta()) -> dict[str, bytes]:
    """A Secret's data as it is made at the first start, so long ago."""
    data = certificates.plan({}, datetime.now(UTC) - ago, NAMES).data
    assert data is not None
    return dict(data)


def trusting(bundle: bytes) -> ssl.SSLContext:
    """What an API server checks the webhooks' server by."""
    return ssl.create_default_context(cadata=bundle.decode())


def review(given: Any = None, **more: Any) -> dict[str, Any]:
    """An AdmissionReview as API servers send it."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "name": "web-1",
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:shop:deployer", "groups": ["a"]},
        "object": {"kind": "Pod", "metadata": {"name": "web-1"}} if given is None else given,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    request.update(more)
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


class Serving:
    """A running server, and a client session that trusts it by its bundle."""

    def __init__(
        self, server: AdmissionServer, tls: ServerTls, registry: CollectorRegistry, data: Any
    ) -> None:
        self.server = server
        self.tls = tls
        self.registry = registry
        self.data = data
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trusting(data[certificates.CA_CERT]), limit=0)
        )

    def url(self, path: str) -> str:
        return f"https://localhost:{self.server.port}{path}"

    async def ask(self, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        """Status and answer: JSON where it is, else text."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **more.pop("headers", {})}
        async with self.session.post(
            self.url(path), data=io.BytesIO(data), headers=headers
        ) as response:
            if response.content_type == "application/json":
                return response.status, await response.json()
            return response.status, await response.text()

    def count(self, webhook: str, operation: str, outcome: str) -> float:
        labels = {"webhook": webhook, "operation": operation, "outcome": outcome}
        name = "koord_manager_webhook_requests_total"
        return self.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def serving(
    webhooks: Mapping[str, Webhook] | None = None,
    *,
    limits: AdmissionLimits | None = None,
    problem: Callable[[], str] = str,
    view: ClusterView | None = None,
    host: str | None = "127.0.0.1",
    callers: WebhookCallers | None = None,
) -> AsyncIterator[Serving]:
    """``webhooks`` are ``/admit`` where none are given, which admits everything."""
    tls, registry, data = ServerTls(), CollectorRegistry(), issued()
    tls.use(data[certificates.CERT], data[certificates.KEY], datetime.now(UTC))
    shown = view or ClusterView()
    server = AdmissionServer(
        webhooks or {"/admit": lambda _admission, _view: ADMITTED},
        lambda: shown,
        tls,
        registry,
        host=host,
        port=0,
        limits=limits or AdmissionLimits(),
        problem=problem,
        callers=callers or WebhookCallers(CallerRules(), None),
    )
    await server.start()
    running = Serving(server, tls, registry, data)
    try:
        yield running
    finally:
        await running.session.close()
        await server.stop(drain=0)
