"""Pods by the NodeMetrics of a real API server, with the definition that deploy/ installs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import pytest
from koord_kube.client import Client
from koord_kube.protocol.resources import NODE_METRICS
from koord_model.times import rfc3339

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.apiserver.scheduler_cluster import NAMESPACE, ScheduledCluster, admin_client
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling}]}}
"""


@pytest.fixture
async def client(cluster: RealCluster) -> AsyncIterator[Client]:
    cluster.namespace(NAMESPACE)
    async with await admin_client(cluster.server) as made:
        yield made


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster, CONFIG) as made:
        yield made


async def report(client: Client, node: str, cpu: str) -> None:
    """What a koordlet says."""
    usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}}
    status = {"updateTime": rfc3339(time.time()), "nodeMetric": usage}
    await client.patch(NODE_METRICS, node, {"status": status}, subresource="status")


async def test_pods_go_where_little_is_used(
    cluster: RealCluster, client: Client, scheduler: SchedulerProgram
) -> None:
    nodes = ScheduledCluster(cluster.server, client)
    await nodes.nodes("busy", "idle")
    kind = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
    for node, cpu in {"busy": "3", "idle": "100m"}.items():
        await client.create(NODE_METRICS, {**kind, "metadata": {"name": node}, "spec": {}})
        await report(client, node, cpu)
    try:
        scheduler.start()
        await nodes.pods("first", 3)
        found = await nodes.wait_bound(3)
        assert set(found.values()) == {"idle"}
        await report(client, "idle", "3900m")
        await nodes.pods("second", 1)

        async def refused() -> bool:
            conditions = [
                condition.get("message", "")
                for one in await nodes.all_pods()
                for condition in one["status"].get("conditions", ())
            ]
            return any("2 node(s) cpu usage exceed threshold" in one for one in conditions)

        await until(refused, "a refusal")
        await report(client, "busy", "500m")
        assert (await nodes.wait_bound(4))["second-0"] == "busy"
    finally:
        await nodes.clean()
        for node in ("busy", "idle"):
            await client.delete(NODE_METRICS, node)
