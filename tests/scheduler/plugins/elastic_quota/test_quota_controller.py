"""What is written of quotas, and which pods are evicted for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import SharedBackoff
from koord_model.keys import ANNOTATION_QUOTA_RUNTIME
from koord_scheduler.plugins.elastic_quota.controller import (
    QuotaCreator,
    QuotaReporter,
    QuotaRevoker,
)
from koord_scheduler.plugins.elastic_quota.overuse import RevokeRules
from koord_scheduler.plugins.elastic_quota.quota_metrics import QuotaMetrics, quota_figures
from prometheus_client import CollectorRegistry

from tests.support.merge_patch import merged
from tests.support.quota_cluster import QuotaCluster, quota_object
from tests.support.reconciling import reconcile_due


class Writer:
    """Keeps what is written, and the time."""

    def __init__(self) -> None:
        self.written: list[Request] = []
        self.now = 1000.0

    async def write(self, request: Request) -> bytes:
        self.written.append(request)
        return b"{}"

    def take(self) -> list[Request]:
        found, self.written = self.written, []
        return found


def body(request: Request) -> Mapping[str, Any]:
    assert request.body is not None
    return request.body


async def test_a_quota_is_written_when_it_stands_otherwise_than_the_api_says() -> None:
    cluster, writer = QuotaCluster("n1"), Writer()
    document = quota_object("team", {"cpu": 5}, {"cpu": 1})
    cluster.put("ElasticQuota", "q/team", document)
    cluster.pod("a", "team", 2, "n1")
    cluster.pod("b", "team", 1)
    controller = QuotaReporter(cluster.quotas, writer.write)
    await reconcile_due(controller)
    [request] = writer.take()
    assert (request.method, request.name, request.namespace) == ("PATCH", "team", "q")
    document = merged(document, body(request))
    assert document["status"] == {"used": {"cpu": "2"}}
    runtime = document["metadata"]["annotations"][ANNOTATION_QUOTA_RUNTIME]
    assert json.loads(runtime) == {"cpu": "3"}
    cluster.put("ElasticQuota", "q/team", document)
    await reconcile_due(controller)
    assert writer.take() == []
    cluster.remove("Pod", "shop/a")
    await reconcile_due(controller)
    [request] = writer.take()
    document = merged(document, body(request))
    assert document["status"]["used"]["cpu"] == "0"


async def test_quotas_that_everybody_expects_are_created() -> None:
    cluster, writer = QuotaCluster("n1"), Writer()
    controller = QuotaCreator(cluster.quotas, writer.write, "q")
    await reconcile_due(controller)
    created = writer.take()
    for request in created:
        metadata = body(request)["metadata"]
        cluster.put("ElasticQuota", f"q/{metadata['name']}", body(request))
    assert {body(one)["metadata"]["name"] for one in created} == {
        "koordinator-root-quota",
        "koordinator-default-quota",
        "koordinator-system-quota",
    }
    await reconcile_due(controller)
    assert writer.take() == []


async def test_the_least_important_pods_go_of_a_quota_that_uses_too_much_for_too_long() -> None:
    cluster, writer = QuotaCluster("n1"), Writer()
    cluster.quota("team", 5)
    for name, priority in (("low", 1), ("mid", 2), ("high", 3)):
        cluster.pod(name, "team", 2, "n1", priority=priority)
    controller = QuotaRevoker(
        cluster.scheduler,
        PodEvictor(writer.write, SharedBackoff()),
        RevokeRules(120.0, 1.0),
        monotonic=lambda: writer.now,
    )
    await reconcile_due(controller)
    writer.now += 100
    await reconcile_due(controller)
    assert writer.take() == []
    writer.now += 21
    await reconcile_due(controller)
    [request] = writer.take()
    assert (request.name, request.subresource) == ("low", "eviction")
    assert body(request)["deleteOptions"] == {"preconditions": {"uid": "u-low"}}
    cluster.quota("team", 6)
    writer.now += 500
    await reconcile_due(controller)
    assert writer.take() == []


def test_prometheus_hears_of_quotas_by_the_names_of_koordinator() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 5, 1, parent="org")
    cluster.pod("a", "team", 2, "n1")
    registry = CollectorRegistry()
    registry.register(QuotaMetrics(lambda: quota_figures(cluster.quotas)))
    labels = {"name": "team", "resource": "cpu", "tree": "", "is_parent": "false", "parent": "org"}
    for field, amount in (("used", 2000), ("runtime", 2000), ("min", 1000), ("max", 5000)):
        found = registry.get_sample_value(
            "scheduler_elastic_quota_status", {**labels, "field": field}
        )
        assert found == amount


def test_services_show_quotas_and_their_pods() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 5)
    cluster.pod("a", "team", 2, "n1")
    services = cluster.plugin.services(cluster.scheduler.nodes)
    found = services["/quotas/:name"]({"name": "team", "includePods": "true"})
    assert (found["used"], found["runtime"]) == ({"cpu": "2"}, {"cpu": "2"})
    pods = {"shop/a": {"isAssigned": True, "resource": {"cpu": "2"}}}
    assert found["podCache"] == pods
    assert "team" in services["/quotas"]({})
