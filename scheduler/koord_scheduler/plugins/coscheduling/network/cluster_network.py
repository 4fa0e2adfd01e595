"""The network that the nodes are in, as far as it is described. No IO."""

from __future__ import annotations

from collections.abc import Iterable

from koord_scheduler.plugins.coscheduling.network.cluster_topology import (
    TOPOLOGY_NAME,
    ClusterTopology,
    NetworkLayer,
    network_layers,
)
from koord_scheduler.plugins.coscheduling.network.tree import NetworkNode, NetworkTree, network_tree


class ClusterNetwork:
    """The ClusterNetworkTopology that counts, its layers, and the nodes' tree.

    Unless it ``is_used``, nothing is known of it.
    """

    def __init__(self) -> None:
        self.is_used = False
        self.topology: ClusterTopology | None = None
        self.layers: tuple[NetworkLayer, ...] | None = None
        self._tree: NetworkTree | None = None
        self._version = -1
        self._warnings: list[str] = []

    def set(self, name: str, topology: ClusterTopology) -> None:
        """A ClusterNetworkTopology is there, or has changed; one without valid layers is none."""
        if name != TOPOLOGY_NAME:
            self._warnings.append(
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
            self._warnings.append(f'ClusterNetworkTopology "{name}" is ignored: {error}')

    def remove(self, name: str) -> None:
        """A ClusterNetworkTopology is gone."""
        if name == TOPOLOGY_NAME:
            self.topology = self.layers = self._tree = None

    def tree(self, version: int, nodes: Iterable[NetworkNode]) -> NetworkTree | None:
        """The tree of nodes, whose labels are as in ``version``; ``None``: there are no layers."""
        if self.layers is None:
            return None
        if self._tree is None or self._version != version:
            self._tree, self._version = network_tree(nodes, self.layers), version
        return self._tree

    def take_warnings(self) -> list[str]:
        """What is wrong with ClusterNetworkTopologies, a line each, once."""
        warnings, self._warnings = self._warnings, []
        return warnings
