"""Quotas of the scheduler by a real API server: admission, preemption, reports, and evictions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from koord_model.keys import ANNOTATION_QUOTA_RUNTIME, LABEL_QUOTA_NAME

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.support.quota_cluster import quota_object
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "sharing"
ARGS = {"monitorAllQuotas": True, "delayEvictTime": "2s", "quotaGroupNamespace": NAMESPACE}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "ElasticQuota"}]}},
            "pluginConfig": [{"name": "ElasticQuota", "args": ARGS}],
        }
    ],
}


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster, json.dumps(CONFIG)) as made:
        yield made


def quota(name: str, most: str, least: str = "0") -> dict[str, Any]:
    document = quota_object(name, {"cpu": most}, {"cpu": least})
    metadata = {"name": name, "namespace": NAMESPACE}
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
    return {**kind, "metadata": metadata, "spec": document["spec"]}


def pod(name: str, of: str, cpus: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus}}}]
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {LABEL_QUOTA_NAME: of}}
    grace = {"terminationGracePeriodSeconds": 0}
    spec = {"containers": containers, **grace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def test_a_quota_lends_reports_and_takes_back(
    cluster: RealCluster, scheduler: SchedulerProgram
) -> None:
    cluster.namespace(NAMESPACE)
    cluster.ready_node("q1", {"cpu": "8", "memory": "16Gi", "pods": "110"})
    cluster.apply(quota("a", "8", "4"), quota("b", "8", "4"))
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")

    def found(kind: str, name: str) -> Any:
        listed = cluster.get(kind, "-n", NAMESPACE)["items"]
        return next((one for one in listed if one["metadata"]["name"] == name), {})

    def used(name: str) -> Any:
        return found("elasticquotas", name).get("status", {}).get("used", {}).get("cpu")

    def waits(name: str) -> str:
        conditions = found("pods", name).get("status", {}).get("conditions", [])
        return "".join(one.get("message", "") for one in conditions)

    cluster.apply(*(pod(name, "a", "2") for name in ("a1", "a2", "a3")))
    await until(lambda: used("a") == "6", "what a borrows")
    runtime = found("elasticquotas", "a")["metadata"]["annotations"][ANNOTATION_QUOTA_RUNTIME]
    assert json.loads(runtime)["cpu"] == "6"
    await until(lambda: found("elasticquotas", "koordinator-default-quota"), "the default quota")
    # What b asks for is its own: a has to give back what it borrowed.
    cluster.apply(pod("b1", "b", "4"), pod("a4", "a", "1"))
    await until(lambda: "Insufficient quotas, quotaName: a" in waits("a4"), "a refusal")
    await until(lambda: used("b") == "4", "room for b")
    assert found("pods", "b1")["spec"]["nodeName"] == "q1"
    assert used("a") == "4"
    assert len([name for name in ("a1", "a2", "a3") if found("pods", name)]) == 2
