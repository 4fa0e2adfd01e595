"""Says in the status of the ClusterNetworkTopology which domains there are."""

from __future__ import annotations

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import CLUSTER_NETWORK_TOPOLOGIES

from koord_scheduler.io.limited_writer import Write
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.cluster_topology import TOPOLOGY_NAME
from koord_scheduler.plugins.coscheduling.network.topology_status import detail_status
from koord_scheduler.state.cluster_state import ClusterState

PASS_SECONDS = 10.0
"""Between two looks, as in Koordinator."""


class NetworkTopologyController:
    """Runs while this scheduler leads, and writes what has changed."""

    def __init__(
        self, nodes: ClusterState, write: Write, *, on_warning: OnWarning = ignore_warning
    ) -> None:
        self._nodes = nodes
        self._write = write
        self._on_warning = on_warning

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await anyio.sleep(PASS_SECONDS)

    async def look(self) -> None:
        """Once."""
        request = status_patch(self._nodes)
        if request is None:
            return
        try:
            await self._write(request)
        except (ConflictError, NotFoundError, NotLeadingError):
            return  # it has changed meanwhile, which the watch will say
        except ApiError as error:
            self._on_warning(f"{error} (ClusterNetworkTopology {TOPOLOGY_NAME})")


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
