"""The status of the ClusterNetworkTopology is written when it has changed."""

from __future__ import annotations

from typing import Any

from koord_kube.protocol.request import Request
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.controller import (
    NetworkTopologyController,
)

from tests.support.gangs import GangCluster
from tests.support.reconciling import reconcile_due

LAYERS = [
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
    {"topologyLayer": "rack", "labelKey": ["rack"]},
]


class Writes:
    """What is written, and how that ends."""

    def __init__(self) -> None:
        self.found: list[Request] = []

    async def write(self, request: Request) -> bytes:
        self.found.append(request)
        return b""


def put(cluster: GangCluster, version: str, status: Any = None) -> None:
    metadata = {"name": "default", "uid": "u", "resourceVersion": version}
    spec = {"networkTopologySpec": LAYERS}
    document = {"metadata": metadata, "spec": spec, "status": status or {}}
    cluster.put("ClusterNetworkTopology", "default", document)


async def test_it_is_written_once_for_each_change_of_the_nodes() -> None:
    cluster, writes = GangCluster(gathers=True), Writes()
    controller = NetworkTopologyController(cluster.scheduler.nodes, writes.write)
    cluster.node("n1", rack="r1")
    await reconcile_due(controller)
    assert writes.found == [], "there is no object"
    put(cluster, "1")
    await reconcile_due(controller)
    (request,) = writes.found
    assert (request.name, request.subresource) == ("default", "status")
    assert request.body["metadata"] == {"uid": "u", "resourceVersion": "1"}
    tree = cluster.scheduler.nodes.use(ClusterNetwork).tree()
    put(cluster, "2", request.body["status"])
    assert cluster.scheduler.nodes.use(ClusterNetwork).tree() is tree, "its layers are the same"
    await reconcile_due(controller)
    assert len(writes.found) == 1
    cluster.node("n2", rack="r2")
    await reconcile_due(controller)
    details = writes.found[1].body["status"]["detailStatus"]
    assert [one["nodeNum"] for one in details] == [2, 1, 1]
