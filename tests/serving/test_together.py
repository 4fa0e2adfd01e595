"""All of it at once: an API server that asks our webhooks, through Secret and configurations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.configuration_reconciler import WebhookConfigurationReconciler
from koord_serving.admission.core.admission import (
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)
from koord_serving.admission.core.ca_bundle_targets import configuration_target
from koord_serving.admission.core.configurations import (
    WebhookClientConfig,
    WebhookDefinition,
    configurations,
)
from koord_serving.admission.self_check import self_check
from koord_serving.admission.server import AdmissionServer
from koord_serving.tls.certificate_secret import SECRET_NAME, CertificateSecret
from koord_serving.tls.core.certificates import CA_CERT, CA_KEY
from koord_serving.tls.server_tls import ServerTls
from prometheus_client import CollectorRegistry

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.serving import NAME, NAMES

OWN, SERVICE = "koordinator-system", "koordinator-webhook-service"
DAY = timedelta(days=1)


def label(admission: AdmissionRequest, _view: ClusterView) -> AdmissionResponse:
    if admission.name == "bad":
        return AdmissionResponse(refusal="pods are not called bad")
    meta = {**admission.object["metadata"], "labels": {"seen": "true"}}
    return AdmissionResponse(object={**admission.object, "metadata": meta}, warnings=("labelled",))


ROWS = [
    WebhookDefinition(
        name=f"{'m' if mutating else 'v'}pod.koordinator.sh",
        path="/pods",
        handler=label,
        gate="Pods",
        resource="pods",
        operations=(AdmissionOperation.CREATE,),
        mutating=mutating,
        fails=True,
    )
    for mutating in (True, False)
]


class Manager:
    """One replica, which leads; its clock began three days ago."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self.now = datetime.now(UTC) - 3 * DAY
        self.client = Client(Cluster(api.url))
        tls = ServerTls()
        self.server = AdmissionServer(
            {row.path: row.handler for row in ROWS},
            ClusterView,
            tls,
            CollectorRegistry(),
            host="127.0.0.1",
            port=0,
        )
        self.rotation = CertificateSecret(
            self.client, tls, NAMES, namespace=OWN, leads=lambda: True, now=lambda: self.now
        )
        gates = {"WebhookFramework": True, "Pods": True}
        documents = configurations(ROWS, gates, WebhookClientConfig(OWN))
        kinds = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        self.keeper = WebhookConfigurationReconciler(
            self.client,
            [
                configuration_target(kind, document, {row.name for row in ROWS})
                for kind, document in zip(kinds, documents, strict=True)
            ],
            bundle=lambda: self.rotation.bundle,
            ready=self._ready,
            leads=lambda: True,
        )
        self._pods = 0

    async def _ready(self) -> str:
        return await self_check(self.server.host, self.server.port, self.rotation.bundle, NAME)

    async def start(self) -> None:
        await self.server.start()
        self.api.services[OWN, SERVICE, 443] = ("127.0.0.1", self.server.port)

    async def create_pod(self, name: str = "", namespace: str = "shop") -> dict[str, str]:
        """The labels it is kept with."""
        self._pods += 1
        meta = {"name": name or f"web-{self._pods}", "namespace": namespace}
        containers = [{"name": "a", "image": "b"}]
        given = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        kept = await self.client.create(
            PODS, {**given, "spec": {"containers": containers}}, namespace
        )
        labels: dict[str, str] = kept["metadata"].get("labels", {})
        return labels


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koord_serving.admission.self_check._SECONDS", PATIENCE)


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    async with KubeApi() as api:
        for name in ("shop", OWN, "kube-system"):
            labels = {"kubernetes.io/metadata.name": name}
            api.put(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        made = Manager(api)
        yield made
        await made.server.stop(drain=0)
        await made.client.close()


async def test_api_servers_ask_once_we_answer_and_not_before(manager: Manager) -> None:
    assert await manager.create_pod() == {}
    assert await manager.keeper.once() == 1.0, "nobody answers yet"
    await manager.start()
    assert await manager.keeper.once() == 1.0, "there is no certificate yet"
    assert await manager.create_pod() == {}
    await manager.rotation.once()
    assert await manager.keeper.once() == 60.0
    assert await manager.create_pod() == {"seen": "true"}
    with pytest.raises(ApiError, match="pods are not called bad"):
        await manager.create_pod("bad")


async def test_what_the_cluster_and_we_start_with_is_never_asked_about(manager: Manager) -> None:
    await manager.start()
    await manager.rotation.once()
    await manager.keeper.once()
    await manager.server.stop(drain=0)
    with pytest.raises(ApiError):
        await manager.create_pod()
    for namespace in (OWN, "kube-system"):
        assert await manager.create_pod(namespace=namespace) == {}


async def test_an_authority_is_followed_and_no_pod_is_refused(manager: Manager) -> None:
    """What has lost its key is followed as what is old is; one side is told before the other."""
    await manager.start()
    await manager.rotation.once()
    await manager.keeper.once()
    secret = manager.api.get(SECRETS, SECRET_NAME, OWN)
    first = secret["data"][CA_CERT]
    del secret["data"][CA_KEY]
    manager.api.put(SECRETS, secret, OWN)
    done = asyncio.Event()
    created = 0

    async def create() -> None:
        nonlocal created
        while not done.is_set():
            assert await manager.create_pod() == {"seen": "true"}
            created += 1

    async with asyncio.TaskGroup() as group:
        creating = group.create_task(create())
        for _ in range(3):
            for step in (manager.rotation.once, manager.keeper.once):
                await step()
                before = created
                while created < before + 2 and not creating.done():
                    await asyncio.sleep(0.01)
            manager.now += DAY
        done.set()
    assert manager.api.get(SECRETS, SECRET_NAME, OWN)["data"][CA_CERT] != first
    assert manager.rotation.bundle.count(b"BEGIN CERTIFICATE") == 1
