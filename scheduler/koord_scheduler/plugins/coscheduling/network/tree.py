"""The nodes as leaves of a tree of network domains. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from koord_scheduler.plugins.coscheduling.network.cluster_topology import (
    CLUSTER_LAYER,
    NODE_LAYER,
    NetworkLayer,
)
from koord_scheduler.state.arrays import Codes, Rows


class Domain(NamedTuple):
    """A domain by the numbers of its layer and of its place there."""

    layer: int
    place: int


class NetworkNode(NamedTuple):
    """A node by its row."""

    row: int
    name: str
    labels: Mapping[str, str]


class NetworkTree:
    """The domains of all layers; ``rows`` are the leaves in an order in which each is a range.

    ``layers`` are the names of the layers, from the cluster down to the nodes. ``starts[layer]``
    are the first leaves of its domains and, at the end, the number of leaves; ``names[layer]``
    are the names of its domains. Siblings are in the order of their names.
    """

    def __init__(
        self,
        layers: Sequence[str],
        rows: Rows,
        starts: Sequence[Codes],
        names: Sequence[Sequence[str]],
    ) -> None:
        self.layers = tuple(layers)
        self.rows = rows
        self.starts = tuple(starts)
        self.names = tuple(names)

    def leaves(self, domain: Domain) -> tuple[int, int]:
        """The first leaf of a domain, and the one after its last."""
        starts = self.starts[domain.layer]
        return int(starts[domain.place]), int(starts[domain.place + 1])

    def path(self, domain: Domain) -> str:
        """The names of a domain and of all above it, from the top down."""
        leaf = self.leaves(domain)[0]
        above = (self.at(layer, leaf) for layer in range(1, domain.layer + 1))
        return "/".join(self.names[layer][place] for layer, place in above)

    def at(self, layer: int, leaf: int) -> Domain:
        """The domain of a layer that a leaf is in."""
        return Domain(layer, int(np.searchsorted(self.starts[layer], leaf, "right")) - 1)

    def children(self, domain: Domain) -> range:
        """The places of a domain's parts in the layer below."""
        first, end = self.leaves(domain)
        below = self.starts[domain.layer + 1]
        return range(int(np.searchsorted(below, first)), int(np.searchsorted(below, end)))

    def sums(self, layer: int, amounts: Codes) -> Codes:
        """Amounts by leaf (along the last axis), added up by the domains of a layer."""
        starts = self.starts[layer]
        if not len(self.rows):
            return np.zeros((*amounts.shape[:-1], len(starts) - 1), amounts.dtype)
        found: Codes = np.add.reduceat(amounts, starts[:-1], axis=-1)
        return found


def network_tree(nodes: Iterable[NetworkNode], layers: Sequence[NetworkLayer]) -> NetworkTree:
    """The tree of all nodes that have a domain in each layer.

    A node that lacks one only in the lowest layer is a domain there by itself. Domains of one name
    under different parents are different domains.
    """
    places = ((_path(node, layers), node.row) for node in nodes)
    found = sorted((path, row) for path, row in places if path is not None)
    paths = [path for path, _ in found]
    starts, names = [np.array([0, len(found)])], [[""]]
    for depth in range(1, len(layers) + 2):
        firsts = [
            leaf
            for leaf, path in enumerate(paths)
            if not leaf or path[:depth] != paths[leaf - 1][:depth]
        ]
        starts.append(np.array([*firsts, len(found)]))
        names.append([paths[leaf][depth - 1] for leaf in firsts])
    rows = np.array([row for _, row in found], np.intp)
    return NetworkTree(
        [CLUSTER_LAYER, *(layer.name for layer in layers), NODE_LAYER], rows, starts, names
    )


def _path(node: NetworkNode, layers: Sequence[NetworkLayer]) -> tuple[str, ...] | None:
    """The names of a node's domains, its own at the end; ``None``: it lacks one."""
    labels = node.labels
    path = [
        next((labels[key] for key in layer.label_keys if labels.get(key)), "") for layer in layers
    ]
    if path and not path[-1]:
        path[-1] = node.name
    return (*path, node.name) if all(path) else None
