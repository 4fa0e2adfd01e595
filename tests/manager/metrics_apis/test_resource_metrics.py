"""metrics.k8s.io over real sockets and TLS."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from koord_manager.metrics_apis.core.pods import PodIndex, read_pod
from koord_manager.metrics_apis.resource_metrics import ResourceMetricsGroup, UsageSources
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_model.times import rfc3339

from tests.support.certificates import HAVE_OPENSSL
from tests.support.metrics_service import DISCOVERS, READER, make_manager

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")

BASE = "/apis/metrics.k8s.io/v1beta1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
Get = Callable[..., Any]


class UsageServer:
    """A manager that serves usage of the nodes and pods that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.manager = make_manager(folder)
        self.pods: PodIndex | None = PodIndex()
        service, manager = self.manager.service, self.manager
        rules = {"verbs": ["get", "list"], "apiGroups": ["metrics.k8s.io"]}
        access = manager.reviews.access
        access.grant("readers", rules | {"resources": ["nodes", "pods"]}, DISCOVERS)
        sources = UsageSources(
            service.store,
            service.complete,
            lambda: self.pods,
            lambda name: {"node": name},
            lambda node: manager.strategies.get(node, ColocationStrategy()),
        )
        service.served.add(
            ResourceMetricsGroup(
                sources,
                clock=lambda: manager.wall + manager.now,
                monotonic=lambda: manager.now,
            )
        )

    def report(self, node: str, *pods: str) -> None:
        """Each pod is in the namespace ``shop`` and has run for an hour."""
        now, known = self.manager.wall + self.manager.now, self.pods
        assert known is not None
        used = {"resources": {"cpu": "250m", "memory": "64Mi"}}
        for name in pods:
            meta = {"name": name, "namespace": "shop", "labels": {"app": name[:3]}}
            meta["creationTimestamp"] = rfc3339(now - 3600)
            spec = {"nodeName": node, "containers": [{"name": "main"}]}
            raw = json.dumps({"metadata": meta, "spec": spec}).encode()
            known.changed(f"shop/{name}", None, read_pod(raw))
        status = {
            "updateTime": rfc3339(now - 5),
            "nodeMetric": {"nodeUsage": used},
            "podsMetric": [{"namespace": "shop", "name": name, "podUsage": used} for name in pods],
        }
        self.manager.put(node, status=json.dumps(status).encode())


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[UsageServer]:
    made = UsageServer(tmp_path)
    await made.manager.start()
    made.manager.lead(5000)
    made.report("n1", "web-1", "web-2")
    made.report("n2", "sql-1")
    yield made
    await made.manager.service.stop()


@pytest.fixture
async def get(server: UsageServer) -> AsyncIterator[Get]:
    connector = aiohttp.TCPConnector(ssl=server.manager.trust)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(path: str, status: int = 200, accept: str = "*/*", verb: str = "GET") -> Any:
            headers = {"Authorization": f"Bearer {READER}", "Accept": accept}
            url = server.manager.url + path
            async with session.request(verb, url, headers=headers) as answer:
                body = await answer.read()
                assert answer.status == status, body
                return json.loads(body) | ({"retry": answer.headers.get("Retry-After")})

        yield ask


def names(document: Any) -> list[str]:
    return [one["metadata"]["name"] for one in document["items"]]


async def test_it_is_found(get: Get) -> None:
    groups = [group["name"] for group in (await get("/apis"))["groups"]]
    assert groups == ["metrics.koordinator.sh", "metrics.k8s.io"]
    kinds = [(one["name"], one["kind"]) for one in (await get(BASE))["resources"]]
    assert kinds == [("nodes", "NodeMetrics"), ("pods", "PodMetrics")]


async def test_objects_are_as_metrics_server_has_them(server: UsageServer, get: Get) -> None:
    server.manager.strategies["n1"] = ColocationStrategy(metric_aggregate_seconds=30)
    now = server.manager.wall + server.manager.now
    node = await get(f"{BASE}/nodes/n1")
    assert (node["kind"], node["usage"]) == ("NodeMetrics", {"cpu": "250m", "memory": "64Mi"})
    assert (node["timestamp"], node["window"]) == (rfc3339(now - 5), "30s")
    assert node["metadata"]["labels"] == {"node": "n1"}
    pod = await get(f"{BASE}/namespaces/shop/pods/sql-1")
    assert (pod["kind"], pod["metadata"]["namespace"]) == ("PodMetrics", "shop")
    assert pod["containers"] == [{"name": "main", "usage": {"cpu": "250m", "memory": "64Mi"}}]
    assert pod["window"] == "5m0s"


async def test_lists_follow_selectors(get: Get) -> None:
    assert names(await get(f"{BASE}/nodes")) == ["n1", "n2"]
    assert names(await get(f"{BASE}/nodes?labelSelector=node%3Dn2")) == ["n2"]
    assert names(await get(f"{BASE}/pods")) == ["web-1", "web-2", "sql-1"]
    shop = f"{BASE}/namespaces/shop/pods"
    assert names(await get(f"{shop}?labelSelector=app%3Dweb")) == ["web-1", "web-2"]
    assert names(await get(f"{shop}?fieldSelector=metadata.name%3Dsql-1")) == ["sql-1"]
    assert names(await get(f"{BASE}/namespaces/other/pods")) == []


async def test_tables(get: Get) -> None:
    for path, first in (("nodes", "n1"), ("pods", "web-1")):
        table = await get(f"{BASE}/{path}", accept=TABLE)
        assert table["rows"][0]["cells"] == [first, "250m", "64Mi", "5m0s"]
    assert table["columnDefinitions"][0]["name"] == "Name"


async def test_silent_nodes_and_their_pods_are_left_out(server: UsageServer, get: Get) -> None:
    server.manager.now += 400
    server.report("n2", "sql-1")
    await server.manager.service.age()
    assert names(await get(f"{BASE}/nodes")) == ["n2"]
    assert names(await get(f"{BASE}/pods")) == ["sql-1"]
    for path in ("nodes/n1", "namespaces/shop/pods/web-1", "namespaces/shop/pods/none"):
        assert (await get(f"{BASE}/{path}", 404))["reason"] == "NotFound"


async def test_a_new_leader_answers_when_it_knows_reports_and_pods(
    server: UsageServer, get: Get
) -> None:
    server.pods = None
    assert names(await get(f"{BASE}/nodes")) == ["n1", "n2"]
    refused = await get(f"{BASE}/pods", 503)
    assert (refused["retry"], refused["reason"]) == ("2", "ServiceUnavailable")
    assert "it still reads the pods" in refused["message"]
    server.manager.lead(6000, settled=False)
    for path in ("nodes", "nodes/n1", "pods", "namespaces/shop/pods/web-1"):
        assert "still reporting" in (await get(f"{BASE}/{path}", 503))["message"]


async def test_what_it_does_not_do(server: UsageServer, get: Get) -> None:
    access = server.manager.reviews.access
    access.grant("readers", {"verbs": ["*"], "apiGroups": ["*"], "resources": ["nodes", "pods"]})
    assert "watch is not supported" in (await get(f"{BASE}/pods?watch=1", 405))["message"]
    assert "read-only" in (await get(f"{BASE}/nodes/n1", 405, verb="DELETE"))["message"]
