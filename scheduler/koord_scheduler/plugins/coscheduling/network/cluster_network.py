"""The network that the nodes are in, as far as it is described. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from koord_kube.protocol.resources import CLUSTER_NETWORK_TOPOLOGIES

from koord_scheduler.plugins.coscheduling.network.cluster_topology import (
    TOPOLOGY_NAME,
    ClusterTopology,
    NetworkLayer,
    network_layers,
    read_cluster_topology,
)
from koord_scheduler.plugins.coscheduling.network.tree import NetworkNode, NetworkTree, network_tree
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState


class ClusterNetwork(FeatureState):
    """The ClusterNetworkTopology that counts, its layers, and the nodes' tree."""

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.topology: ClusterTopology | None = None
        self.layers: tuple[NetworkLayer, ...] | None = None
        self._tree: NetworkTree | None = None
        self._version = -1

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        yield ClusterKind(
            CLUSTER_NETWORK_TOPOLOGIES,
            ClusterTopology,
            read_cluster_topology,
            self.set,
            self.remove,
            is_optional=True,
        )

    def set(self, name: str, topology: ClusterTopology) -> None:
        """A ClusterNetworkTopology is there, or has changed; one without valid layers is none."""
        if name != TOPOLOGY_NAME:
            self.warn(
                f'ClusterNetworkTopology "{name}" does not count; only "{TOPOLOGY_NAME}" does'
            )
            return
        before, self.topology = self.topology, topology
        if before is not None and before.spec == topology.spec:
            return
        self.layers = self._tree = None
        try:
            self.layers = network_layers(topology.spec.network_topology_spec)
        except ValueError as error:
            self.warn(f'ClusterNetworkTopology "{name}" is ignored: {error}')

    def remove(self, name: str) -> None:
        """A ClusterNetworkTopology is gone."""
        if name == TOPOLOGY_NAME:
            self.topology = self.layers = self._tree = None

    def tree(self) -> NetworkTree | None:
        """The tree of the nodes; ``None``: there are no layers."""
        nodes = self._nodes
        if self.layers is None:
            return None
        if self._tree is None or self._version != nodes.version:
            rows = np.flatnonzero(nodes.is_node).tolist()
            found = (NetworkNode(row, nodes.name(row), nodes.labels.of(row)) for row in rows)
            self._tree, self._version = network_tree(found, self.layers), nodes.version
        return self._tree
