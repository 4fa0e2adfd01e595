"""custom.metrics.k8s.io over real sockets and TLS."""

from __future__ import annotations

import math
from typing import Any

import pytest
from koord_manager.metrics_apis.core.history import ASKED_SECONDS
from koord_manager.slo_config.core.colocation import ColocationStrategy, MemoryPolicy
from koord_model.times import rfc3339

from tests.manager.metrics_apis.conftest import Get, UsageServer
from tests.support.certificates import HAVE_OPENSSL

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")

BASE = "/apis/custom.metrics.k8s.io/v1beta2"
SHOP = f"{BASE}/namespaces/shop/pods"
WEB = "labelSelector=app%3Dweb"
TWO = {"containers": {"web": {"cpu": "1", "memory": "1Gi"}, "log": {"cpu": "2", "memory": "1Gi"}}}


def values(document: Any) -> list[tuple[str, str]]:
    return [(item["describedObject"]["name"], item["value"]) for item in document["items"]]


async def test_both_versions_are_found(get: Get) -> None:
    group = await get("/apis/custom.metrics.k8s.io")
    assert [item["version"] for item in group["versions"]] == ["v1beta2", "v1beta1"]
    for version in ("v1beta1", "v1beta2"):
        found = await get(f"/apis/custom.metrics.k8s.io/{version}")
        assert {"nodes/node_cpu_usage", "pods/pod_cpu_load_1min"} <= {
            item["name"] for item in found["resources"]
        }


async def test_values_are_as_autoscalers_read_them(server: UsageServer, get: Get) -> None:
    server.manager.strategies["n1"] = ColocationStrategy(metric_aggregate_seconds=30)
    server.manager.now += 60
    server.report("n1", "web-1")
    found = await get(f"{SHOP}/web-1/pod_cpu_usage")
    described = {"kind": "Pod", "namespace": "shop", "name": "web-1", "apiVersion": "v1"}
    at = rfc3339(server.manager.wall + server.manager.now - 5)
    labels = {"matchLabels": {"container": "main", "node_name": "n1"}}
    value = {"describedObject": described, "timestamp": at, "value": "250m"}
    assert (found["kind"], found["apiVersion"]) == (
        "MetricValueList",
        "custom.metrics.k8s.io/v1beta2",
    )
    metric = {"name": "pod_cpu_usage", "selector": labels}
    assert found["items"] == [value | {"metric": metric, "windowSeconds": 30}]
    older = await get(f"{SHOP}/web-1/pod_cpu_usage".replace("v1beta2", "v1beta1"))
    older_value = {"metricName": "pod_cpu_usage", "selector": labels, "window": 30}
    assert older["items"] == [value | older_value]


async def test_aggregates_are_of_the_last_minutes(server: UsageServer, get: Get) -> None:
    for cpu in ("1", "500m"):
        server.manager.now += 60
        server.report("n1", "web-1", "web-2", cpu=cpu)
    found = await get(f"{SHOP}/*/pod_cpu_usage?{WEB}")
    assert values(found)[:3] == [("web-1", "250m"), ("web-1", "1"), ("web-1", "500m")]
    for suffix, value in (("max", "1"), ("avg", "583333333n"), ("p90", "750m"), ("latest", "500m")):
        found = await get(f"{SHOP}/*/pod_cpu_usage_agg_{suffix}?{WEB}")
        assert values(found) == [("web-1", value), ("web-2", value)]
        assert found["items"][0]["windowSeconds"] == 120 + 300
    server.manager.now += 250
    found = await get(f"{SHOP}/*/pod_cpu_usage?{WEB}")
    assert values(found) == [("web-1", "500m"), ("web-2", "500m")], "300 s after it was reported"


async def test_nothing_is_kept_of_nodes_that_nobody_asks_about(
    server: UsageServer, get: Get
) -> None:
    server.manager.now += 60
    server.report("n2", "sql-1", cpu="1")
    server.manager.now += ASKED_SECONDS + 1
    server.manager.put("n2")
    server.sources.remember("n2", b"{}", server.manager.now)
    assert not server.sources.history.of("n2", 0.0, math.inf)
    server.report("n2", "sql-1", cpu="2")
    path = f"{SHOP}/*/pod_cpu_usage?labelSelector=app%3Dsql"
    assert values(await get(path)) == [("sql-1", "2")], (
        "the newest report's, however old others are"
    )


async def test_metrics_follow_from_what_koordlet_adds(server: UsageServer, get: Get) -> None:
    server.report("n3", "one", delays={"sched_wait": 500})
    for metric, value in (
        ("cpu_load_1min", "375m"),
        ("cpu_usage_ratio", "500m"),
        ("memory_usage", "67108864"),
    ):
        assert values(await get(f"{SHOP}/one/pod_{metric}")) == [("one", value)]
    found = await get(f"{SHOP}/sql-1/pod_cpu_load_1min", 404)
    assert (
        found["message"]
        == '"sql-1" has no pod_cpu_load_1min at present: it is not reported, or too old'
    )
    server.report("n4", "liar", cpu="9e30")
    assert values(await get(f"{SHOP}/*/pod_cpu_usage?labelSelector=app%3Dlia")) == []
    everything = await get(f"{SHOP}/*/*?labelSelector=app%3Done")
    assert len(everything["items"]) == 4


async def test_usage_of_the_last_minute_goes_before_the_usual_one(
    server: UsageServer, get: Get
) -> None:
    recent = {"web": [1.5, 1000.0, 200.0], "log": [0.5, 1000.0]}
    server.report("n3", "two", **TWO, recent=recent, node_ours={"recentSeconds": 60})
    found = await get(f"{SHOP}/*/pod_cpu_load_1min?labelSelector=app%3Dtwo")
    assert values(found) == [("two", "1800m")]
    assert found["items"][0]["windowSeconds"] == 60
    assert (await get(f"{BASE}/nodes/n3/node_cpu_usage"))["items"][0]["windowSeconds"] == 300
    server.manager.now += 60
    server.report("n3", "two", **TWO, recent={"web": [1]}, node_ours={"recentSeconds": 60})
    assert len(values(await get(f"{SHOP}/*/pod_cpu_load_1min?labelSelector=app%3Dtwo"))) == 1


async def test_containers_are_selected_and_grouped(server: UsageServer, get: Get) -> None:
    server.report("n3", "two", **TWO, schedWaits={"web": 100})
    of = "labelSelector=app%3Dtwo&metricLabelSelector="
    found = await get(f"{SHOP}/*/pod_cpu_usage?{of}container%3Dlog")
    assert values(found) == [("two", "2")]
    assert values(await get(f"{SHOP}/*/pod_cpu_load_1min?{of}")) == [("two", "1100m")]
    found = await get(f"{SHOP}/*/pod_cpu_usage_agg_max?{of}groupBy%3Dcontainer")
    groups = [item["metric"]["selector"]["matchLabels"] for item in found["items"]]
    assert groups == [{"container": "log"}, {"container": "web"}]
    assert values(await get(f"{SHOP}/*/pod_cpu_usage_agg_avg?{of}")) == [("two", "1500m")]
    half = {"containers": {"web": TWO["containers"]["web"], "log": {}}}
    server.manager.now += 60
    server.report("n3", "two", **half)
    assert len(values(await get(f"{SHOP}/*/pod_cpu_usage?{of}container%3Dweb"))) == 1


async def test_nodes(server: UsageServer, get: Get) -> None:
    nodes = f"{BASE}/nodes"
    for metric, value in (
        ("node_cpu_total", "4"),
        ("node_cpu_usage_ratio", "62500u"),
        ("node_system_memory_available", str((8 << 30) - (64 << 20))),
    ):
        assert values(await get(f"{nodes}/n1/{metric}")) == [("n1", value)]
    found = await get(f"{nodes}/*/numa_cpu_usage?metricLabelSelector=numa%3D1")
    assert values(found) == [("n1", "250m"), ("n2", "250m")]
    assert values(await get(f"{nodes}/*/node_cpu_usage?labelSelector=node%3Dn2")) == [
        ("n2", "250m")
    ]
    server.manager.strategies["n1"] = ColocationStrategy(
        metric_memory_policy=MemoryPolicy.WITH_PAGE_CACHE
    )
    await get(f"{nodes}/n1/node_system_memory_available", 404)


async def test_silent_nodes_are_left_out(server: UsageServer, get: Get) -> None:
    server.manager.now += 400
    server.report("n2", "sql-1")
    await server.manager.service.age()
    assert values(await get(f"{BASE}/nodes/*/node_cpu_usage")) == [("n2", "250m")]
    assert values(await get(f"{SHOP}/*/pod_cpu_usage_agg_max")) == [("sql-1", "250m")]


@pytest.mark.parametrize(
    ("path", "status", "line"),
    [
        ("namespaces/shop/pods/*/qps", 404, 'pods have no metric "qps"; there are pod_cpu_load'),
        ("nodes/*/pod_cpu_usage", 404, "nodes have no metric"),
        ("namespaces/shop/services/a/qps", 404, '"namespaces/shop/services/a/qps" has no metrics'),
        ("nodes/*/node_cpu_total?metricLabelSelector=a%3Db", 400, 'has no label "a"; it has none'),
        ("nodes/*/numa_cpu_usage?metricLabelSelector=a%20b", 400, 'metricLabelSelector has "a b"'),
        ("nodes/*/numa_cpu_usage?metricLabelSelector=groupBy%3Dnuma", 400, "only for aggregates"),
        ("nodes/*/numa_cpu_usage_agg_max?metricLabelSelector=groupBy", 400, "without labels"),
        (f"nodes/*/node_cpu_usage?metricLabelSelector={'a' * 4097}", 400, "longer than 4096"),
        ("nodes/*/node_cpu_usage?labelSelector=%3D", 400, "unable to parse"),
    ],
)
async def test_bad_questions_get_a_line(get: Get, path: str, status: int, line: str) -> None:
    assert line in (await get(f"{BASE}/{path}", status))["message"]


async def test_a_new_leader_answers_once_it_knows_the_nodes(server: UsageServer, get: Get) -> None:
    server.manager.lead(6000, settled=False)
    for path in ("nodes/*/node_cpu_usage", "namespaces/shop/pods/*/pod_cpu_usage"):
        refused = await get(f"{BASE}/{path}", 503)
        assert (refused["retry"], refused["reason"]) == ("2", "ServiceUnavailable")
        assert "still reporting" in refused["message"]
