"""The status of the ClusterNetworkTopology is written when it has changed."""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.protocol.api import ApiError, ConflictError
from koord_kube.protocol.request import Request
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.controller import (
    NetworkTopologyController,
)

from tests.support.gangs import GangCluster

LAYERS = [
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
    {"topologyLayer": "rack", "labelKey": ["rack"]},
]


class Writes:
    """What is written, and how that ends."""

    def __init__(self) -> None:
        self.found: list[Request] = []
        self.warnings: list[str] = []
        self.error: ApiError | None = None

    async def write(self, request: Request) -> bytes:
        self.found.append(request)
        if self.error is not None:
            raise self.error
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
    await controller.look()
    assert writes.found == [], "there is no object"
    put(cluster, "1")
    await controller.look()
    (request,) = writes.found
    assert (request.name, request.subresource) == ("default", "status")
    assert request.body["metadata"] == {"uid": "u", "resourceVersion": "1"}
    tree = cluster.scheduler.nodes.use(ClusterNetwork).tree()
    put(cluster, "2", request.body["status"])
    assert cluster.scheduler.nodes.use(ClusterNetwork).tree() is tree, "its layers are the same"
    await controller.look()
    assert len(writes.found) == 1
    cluster.node("n2", rack="r2")
    await controller.look()
    details = writes.found[1].body["status"]["detailStatus"]
    assert [one["nodeNum"] for one in details] == [2, 1, 1]


@pytest.mark.parametrize(
    ("error", "warnings"), [(ConflictError("newer", 409), 0), (ApiError("broken", 500), 1)]
)
async def test_what_cannot_be_written_is_tried_again(error: ApiError, warnings: int) -> None:
    cluster, writes = GangCluster(gathers=True), Writes()
    nodes, warn = cluster.scheduler.nodes, writes.warnings.append
    controller = NetworkTopologyController(nodes, writes.write, on_warning=warn)
    put(cluster, "1")
    writes.error = error
    await controller.look()
    await controller.look()
    assert len(writes.found) == 2
    assert len(writes.warnings) == 2 * warnings
