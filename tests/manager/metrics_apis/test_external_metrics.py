"""external.metrics.k8s.io over real sockets and TLS."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.metrics_apis.core.service_metrics import read_packed
from koord_model.times import rfc3339

from tests.manager.metrics_apis.conftest import Get, UsageServer
from tests.support.certificates import HAVE_OPENSSL

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")

BASE = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/spd_agg_metrics"
PREFIX = "metric.katalyst.kubewharf.io/spd-"


def selector(**given: str) -> str:
    asked = {"name": "web", "resource_name": "cpu", "container_name": "main"} | given
    terms = (f"{PREFIX}{key.replace('_', '-')}={value}" for key, value in asked.items() if value)
    return "?labelSelector=" + ",".join(terms).replace("=", "%3D").replace("/", "%2F")


def descriptor(now: float) -> bytes:
    def item(age: float, cpu: str) -> dict[str, Any]:
        containers = [{"name": "main", "usage": {"cpu": cpu, "memory": "many"}}]
        return {"timestamp": rfc3339(now - age), "window": "1m", "containers": containers}

    items = [item(600, "1"), item(60, "1500m"), item(-60, "9"), {"timestamp": "late"}]
    scopes = [
        {"scope": "ResourcePortraitIndicatorPlugin", "items": items},
        {"scope": "mine", "items": [item(5, "3")]},
    ]
    return json.dumps({"metadata": {}, "status": {"aggMetrics": scopes}}).encode()


async def test_the_newest_value_that_is_not_of_the_future(server: UsageServer, get: Get) -> None:
    now = server.manager.wall + server.manager.now
    server.descriptors = {"shop/web": read_packed(descriptor(now))}
    found = await get(BASE + selector())
    (value,) = found["items"]
    assert (found["kind"], value["value"], value["window"]) == (
        "ExternalMetricValueList",
        "1500m",
        60,
    )
    assert value["timestamp"] == rfc3339(now - 60)
    assert value["metricLabels"][f"{PREFIX}scope-name"] == "ResourcePortraitIndicatorPlugin"
    assert (await get(BASE + selector(scope_name="mine")))["items"][0]["value"] == "3"
    missing = await get(BASE + selector(resource_name="memory"), 404)
    assert 'shop/web has no "memory" of container "main"' in missing["message"]


@pytest.mark.parametrize(
    ("asked", "status", "line"),
    [
        (selector(name=""), 400, f"labelSelector lacks {PREFIX}name"),
        (selector(name="sql"), 404, "there is no ServiceProfileDescriptor shop/sql"),
        (selector() + ",app%3Dweb", 400, 'has no label "app"'),
        (selector(name="") + f",{PREFIX}name".replace("/", "%2F"), 400, "no single value"),
    ],
)
async def test_labels_name_a_descriptor(get: Get, asked: str, status: int, line: str) -> None:
    assert line in (await get(BASE + asked, status))["message"]


async def test_what_is_not_there(server: UsageServer, get: Get) -> None:
    found = await get(BASE.replace("spd_agg_metrics", "queue") + selector(), 404)
    assert found["message"] == 'there is no external metric "queue"; there is spd_agg_metrics'
    server.descriptors = {"shop/web": read_packed(b'{"status":{"aggMetrics":7}}')}
    assert "shop/web has no" in (await get(BASE + selector(), 404))["message"]
    server.descriptors = None
    assert "still reads" in (await get(BASE + selector(), 503))["message"]
