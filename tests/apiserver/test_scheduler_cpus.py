"""CPUs for pods, by a real API server: no CPU is in two pods, and koordlet can read which are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from koord_model import cpuset
from koord_model.keys import ANNOTATION_CPU_TOPOLOGY, ANNOTATION_RESOURCE_STATUS

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "databases"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}],
}


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster, json.dumps(CONFIG)) as made:
        yield made


def put_node(cluster: RealCluster, name: str) -> None:
    """A node with two NUMA nodes of two cores, and what koordlet says of it."""
    cluster.ready_node(name, {"cpu": "8", "memory": "16Gi", "pods": "110"})
    detail = [{"id": cpu, "core": cpu // 2, "node": cpu // 4, "socket": 0} for cpu in range(8)]
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology"}
    metadata = {"name": name, "annotations": annotations}
    cluster.apply({**kind, "metadata": metadata, "topologyPolicies": ["None"], "zones": []})


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    labels = {"koordinator.sh/qosClass": "LSR"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    spec = {"containers": [container], "priorityClassName": "koord-prod"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def test_no_cpu_is_given_to_two_pods(
    cluster: RealCluster, scheduler: SchedulerProgram
) -> None:
    cluster.namespace(NAMESPACE)
    for name in ("c1", "c2"):
        put_node(cluster, name)
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")
    cluster.apply(*(pod(f"p{number}") for number in range(8)))

    def bound() -> list[dict[str, Any]]:
        pods = cluster.get("pods", "-n", NAMESPACE)["items"]
        return pods if all(one["spec"].get("nodeName") for one in pods) else []

    pods = await until(bound, "pods with nodes")
    assert pods is not None
    given = []
    for one in pods:
        status = json.loads(one["metadata"]["annotations"][ANNOTATION_RESOURCE_STATUS])
        given += [(one["spec"]["nodeName"], cpu) for cpu in cpuset.parse(status["cpuset"])]
    assert len(given) == len(set(given)) == 16
