"""Entries of the configuration as they are to be followed. No IO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.nodeslo.core.rollout import Layers, Rollout, version_of
from koord_manager.rollout.core.follower import EntryNow
from koord_manager.slo_config.core.config import STRATEGIES
from koord_manager.slo_config.core.layers import Document, NodeLayer
from koord_manager.slo_config.core.reach import FIELDS

_NODES = "nodeStrategies"
_NOT_CONTENT = {*FIELDS, "name", "nodeSelector"}


def entries(
    layers: Layers, rollout: Rollout, nodes: Mapping[str, ClusterNode], data: Mapping[str, str]
) -> Iterator[EntryNow]:
    """Those that have a name; ``data`` is the ConfigMap's, as it is in force."""
    written = dict(_written(data))
    reached: dict[str, set[str]] = {}
    for name, node in nodes.items():
        entry = rollout.entry_for(layers, name, node.labels, is_new=False)
        if entry is not None:
            reached.setdefault(entry.where, set()).add(name)
    canaries = {
        name
        for layer in layers.nodes
        if layer.reach.canary is not None
        for name in reached.get(layer.where, ())
    }
    for layer in layers.nodes:
        if layer.name:
            wanted = reached.get(layer.where, set())
            others = _others(layer, rollout, nodes, canaries)
            yield _entry(layer, written.get(layer.name, {}), wanted, others)


def _others(
    layer: NodeLayer[Document],
    rollout: Rollout,
    nodes: Mapping[str, ClusterNode],
    canaries: set[str],
) -> frozenset[str]:
    if layer.reach.canary is None:
        return frozenset()
    return frozenset(
        name
        for name, node in nodes.items()
        if name not in canaries and rollout.selects(layer, name, node.labels)
    )


def _entry(
    layer: NodeLayer[Document],
    written: Mapping[str, Any],
    wanted: set[str],
    others: frozenset[str],
) -> EntryNow:
    content = {key: value for key, value in written.items() if key not in _NOT_CONTENT}
    return EntryNow(
        layer.name,
        version_of(layer.value),
        len(json.dumps(content)),
        content,
        frozenset(wanted),
        others,
        "" if layer.reach.canary is None else str(written.get("canary", "")),
        layer.reach.paused,
        layer.reach.bounds,
    )


def _written(data: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Entries by name, as somebody wrote them; they have been found valid."""
    document = json.loads(data.get(STRATEGIES) or "{}") or {}
    for entry in document.get(_NODES) or ():
        if entry.get("name"):
            yield entry["name"], entry
