"""The tree in a ClusterNetworkTopology's status. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from koord_scheduler.plugins.coscheduling.network.tree import Domain, NetworkTree


def detail_status(tree: NetworkTree) -> list[dict[str, Any]]:
    """All domains but single nodes, each before its parts."""
    return list(_details(tree, Domain(0, 0))) if len(tree.rows) else [_detail(tree, Domain(0, 0))]


def _details(tree: NetworkTree, domain: Domain) -> Iterator[dict[str, Any]]:
    yield _detail(tree, domain)
    if domain.layer + 2 < len(tree.layers):
        for place in tree.children(domain):
            yield from _details(tree, Domain(domain.layer + 1, place))


def _detail(tree: NetworkTree, domain: Domain) -> dict[str, Any]:
    first, end = tree.leaves(domain)
    found: dict[str, Any] = {"topologyInfo": _info(tree, domain), "nodeNum": end - first}
    below = domain.layer + 1
    if domain.layer:
        found["parentTopologyInfo"] = _info(tree, tree.at(domain.layer - 1, first))
    if end > first:
        found["childTopologyLayer"] = tree.layers[below]
        if below + 1 < len(tree.layers):
            names = tree.names[below]
            found["childTopologyNames"] = [names[place] for place in tree.children(domain)]
    return found


def _info(tree: NetworkTree, domain: Domain) -> dict[str, str]:
    name = tree.names[domain.layer][domain.place]
    return {"topologyLayer": tree.layers[domain.layer], "topologyName": name}
