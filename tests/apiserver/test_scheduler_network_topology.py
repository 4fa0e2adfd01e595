"""Gangs by a real API server: in one rack, or waiting with a reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "gathering"
API = "scheduling.koordinator.sh/v1alpha1"
GANG = "gang.scheduling.koordinator.sh"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
            "pluginConfig": [{"name": "Coscheduling", "args": {"awareNetworkTopology": True}}],
        }
    ],
}
TOPOLOGY = {
    "apiVersion": API,
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "rack", "labelKey": ["example.com/rack"]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
        ]
    },
}
GATHER = {"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster, json.dumps(CONFIG)) as made:
        yield made


def gang(name: str, number: int) -> list[dict[str, Any]]:
    annotations = {
        f"{GANG}/name": name,
        f"{GANG}/min-available": str(number),
        f"{GANG}/network-topology-spec": json.dumps(GATHER),
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{one}",
                "namespace": NAMESPACE,
                "annotations": annotations,
            },
            "spec": {"containers": [container]},
        }
        for one in range(number)
    ]


async def test_a_gang_starts_in_the_one_rack_that_has_room(
    cluster: RealCluster, scheduler: SchedulerProgram
) -> None:
    cluster.namespace(NAMESPACE)
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    for node, rack in {"n1": "r1", "n2": "r2", "n3": "r2", "n4": "r3"}.items():
        cluster.ready_node(node, amounts, {"example.com/rack": rack})
    cluster.apply(TOPOLOGY)
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")

    def pods() -> dict[str, Any]:
        found = cluster.get("pods", "-n", NAMESPACE)["items"]
        return {one["metadata"]["name"]: one for one in found}

    def nodes() -> set[str]:
        return {one["spec"].get("nodeName", "") for one in pods().values()}

    cluster.apply(*gang("four", 4))
    await until(lambda: nodes() == {"n2", "n3"}, "four pods in rack r2")
    cluster.apply(*gang("three", 3))

    def why() -> str:
        conditions = pods()["three-0"].get("status", {}).get("conditions", [])
        return "".join(one.get("message", "") for one in conditions)

    await until(lambda: "has room for 3 pods: r1 has room for 2" in why(), "a reason")
    [topology] = cluster.get("clusternetworktopologies")["items"]
    [whole, *racks] = topology["status"]["detailStatus"]
    assert whole["nodeNum"] == 4
    assert [one["topologyInfo"]["topologyName"] for one in racks] == ["r1", "r2", "r3"]
