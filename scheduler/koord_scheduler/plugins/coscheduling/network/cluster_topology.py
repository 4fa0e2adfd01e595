"""The layers of the network, as a ClusterNetworkTopology lists them. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from koord_kube.views.decode import decode_view

TOPOLOGY_NAME = "default"
"""The one ClusterNetworkTopology that counts."""
CLUSTER_LAYER, NODE_LAYER = "ClusterTopologyLayer", "NodeTopologyLayer"


class TopologyLayerSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One layer: the one above it, and the labels of nodes that name their domain."""

    topology_layer: str = ""
    parent_topology_layer: str = ""
    label_key: list[str] | None = None


class ClusterTopologySpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """All layers, in any order."""

    network_topology_spec: list[TopologyLayerSpec] = []


class ClusterTopologyMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The version that is written about."""

    uid: str = ""
    resource_version: str = ""


class ClusterTopologyStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Status that was written last."""

    detail_status: list[dict[str, Any]] | None = None


class ClusterTopology(msgspec.Struct, frozen=True):
    """A ClusterNetworkTopology of scheduling.koordinator.sh/v1alpha1."""

    metadata: ClusterTopologyMeta = ClusterTopologyMeta()
    spec: ClusterTopologySpec = ClusterTopologySpec()
    status: ClusterTopologyStatus = ClusterTopologyStatus()


class NetworkLayer(NamedTuple):
    """A layer; a node is in the domain that the first of the ``label_keys`` that it has names."""

    name: str
    label_keys: tuple[str, ...] = ()


_DECODER = msgspec.json.Decoder(ClusterTopology)


def read_cluster_topology(raw: bytes) -> ClusterTopology:
    """The ClusterNetworkTopology in a JSON document.

    Raises:
        ValueError: it is not a ClusterNetworkTopology.
    """
    return decode_view(_DECODER, raw, "a valid ClusterNetworkTopology")


def network_layers(specs: Iterable[TopologyLayerSpec]) -> tuple[NetworkLayer, ...]:
    """The layers between the cluster and the nodes, from the top down.

    Raises:
        ValueError: they are no chain that ends with the nodes.
    """
    by_name: dict[str, TopologyLayerSpec] = {}
    for spec in specs:
        if spec.topology_layer in by_name:
            raise ValueError(f'topologyLayer "{spec.topology_layer}" is listed twice; list it once')
        by_name[spec.topology_layer] = spec
    node = by_name.pop(NODE_LAYER, None)
    if node is None:
        raise ValueError(f'topologyLayer "{NODE_LAYER}" is missing; add it as the lowest layer')
    found, parent = list[NetworkLayer](), node.parent_topology_layer
    while by_name:
        above = by_name.pop(parent, None)
        if above is None:
            raise ValueError(
                f'topologyLayer "{next(iter(by_name))}" is not above "{NODE_LAYER}"; make each'
                " layer but the first the parentTopologyLayer of one other"
            )
        found.append(NetworkLayer(above.topology_layer, tuple(above.label_key or ())))
        parent = above.parent_topology_layer
    return tuple(reversed(found))
