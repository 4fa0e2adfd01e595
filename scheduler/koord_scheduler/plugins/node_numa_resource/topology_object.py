"""The object NodeResourceTopology, as koordlet writes it. No IO."""

from __future__ import annotations

import msgspec
from koord_kube.views.decode import decode_view


class ZoneResource(msgspec.Struct, frozen=True, gc=False):
    """Amount of a resource that a zone has for pods."""

    name: str = ""
    allocatable: str | int | float = 0


class Zone(msgspec.Struct, frozen=True, gc=False):
    """A part of the machine; those of type "Node" and name "node-N" are NUMA nodes."""

    name: str = ""
    type: str = ""
    resources: list[ZoneResource] | None = None


class TopologyMeta(msgspec.Struct, frozen=True, gc=False):
    """Name, and koordlet's annotations."""

    name: str = ""
    annotations: dict[str, str] | None = None


class NodeResourceTopology(msgspec.Struct, frozen=True, rename="camel"):
    """The object of that name; its name is that of the Node."""

    metadata: TopologyMeta = TopologyMeta()
    topology_policies: list[str] | None = None
    zones: list[Zone] | None = None


_DECODER = msgspec.json.Decoder(NodeResourceTopology)


def read_node_resource_topology(document: bytes) -> NodeResourceTopology:
    """The object in a JSON document.

    Raises:
        ValueError: it is not a NodeResourceTopology.
    """
    return decode_view(_DECODER, document, "a valid NodeResourceTopology")
