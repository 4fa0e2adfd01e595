"""Says in the status of the ClusterNetworkTopology which domains there are."""

from __future__ import annotations

from collections.abc import Iterable

from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import CLUSTER_NETWORK_TOPOLOGIES

from koord_scheduler.extension_points.api_services import Write
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.cluster_topology import TOPOLOGY_NAME
from koord_scheduler.plugins.coscheduling.network.topology_status import detail_status
from koord_scheduler.state.cluster_state import ClusterState


class NetworkTopologyController:
    """Runs while this scheduler leads, and writes what has changed."""

    name = "ClusterNetworkTopologies"
    every = 10.0
    """As in Koordinator."""

    def __init__(self, nodes: ClusterState, write: Write) -> None:
        self._nodes = nodes
        self._write = write

    def due(self) -> Iterable[str]:
        """Return the name of the only one."""
        return (TOPOLOGY_NAME,)

    async def reconcile(self, key: str) -> None:
        """Write the tree of the nodes if the object says something else."""
        request = status_patch(self._nodes)
        if request is not None:
            await self._write(request)


def status_patch(nodes: ClusterState) -> Request | None:
    """Write the tree of the nodes; ``None``: that is what the object says, or there is no tree."""
    network = nodes.use(ClusterNetwork)
    tree, topology = network.tree(), network.topology
    if tree is None or topology is None:
        return None
    found = detail_status(tree)
    if found == topology.status.detail_status:
        return None
    known = topology.metadata
    metadata = {"uid": known.uid, "resourceVersion": known.resource_version}
    body = {"metadata": metadata, "status": {"detailStatus": found}}
    return Request("PATCH", CLUSTER_NETWORK_TOPOLOGIES, TOPOLOGY_NAME, "", "status", body)
