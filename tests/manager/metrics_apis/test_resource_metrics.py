"""metrics.k8s.io over real sockets and TLS."""

from __future__ import annotations

from typing import Any

import pytest
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_model.times import rfc3339

from tests.manager.metrics_apis.conftest import Get, UsageServer
from tests.support.certificates import HAVE_OPENSSL

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")

BASE = "/apis/metrics.k8s.io/v1beta1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def names(document: Any) -> list[str]:
    return [one["metadata"]["name"] for one in document["items"]]


async def test_it_is_found(get: Get) -> None:
    groups = [group["name"] for group in (await get("/apis"))["groups"]]
    assert groups[:2] == ["metrics.koordinator.sh", "metrics.k8s.io"]
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
