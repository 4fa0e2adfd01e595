"""Choice of each node's entry of ``pykoord-config``: canaries, and what ends by itself. No IO."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import blake2s

from koord_model.label_selector import Labels

from koord_manager.slo_config.core import reach
from koord_manager.slo_config.core.layers import ConfigLayers, Document, NodeLayer

Layers = ConfigLayers[Document]


class Rollout:
    """The canaries of one configuration, kept from node to node; they cost a look at all nodes.

    ``nodes`` are the labels of all by name, ``clock`` gives seconds since the epoch.
    """

    def __init__(
        self, nodes: Callable[[], Mapping[str, Labels]], clock: Callable[[], float]
    ) -> None:
        self._nodes = nodes
        self._clock = clock
        self._layers: Layers | None = None
        self._canaries: Mapping[str, frozenset[str]] = {}
        self._sections: dict[str, Mapping[str, object]] = {}
        self._at = 0.0
        self._is_stale = False

    def node_changed(self) -> None:
        """Look at all nodes again at the next ``refresh``."""
        self._is_stale = True

    def refresh(self) -> bool:
        """Return True if by now nodes may have another entry than they had at the last look."""
        layers, now = self._layers, self._clock()
        if layers is None:
            return False
        ended = any(
            layer.reach.until is not None and self._at < layer.reach.until <= now
            for layer in layers.nodes
        )
        if not ended and not self._is_stale:
            return False
        before = self._canaries
        self._look(layers, now)
        return ended or self._canaries != before

    def entry_for(
        self, layers: Layers, node: str, labels: Labels, *, is_new: bool
    ) -> NodeLayer[Document] | None:
        """The first entry that reaches a node; ``None``: that of the cluster applies.

        A paused entry has nothing that a new node could keep.
        """
        if layers is not self._layers:
            self._look(layers, self._clock())
        for layer in layers.nodes:
            if not layer.selects(node, labels, self._at) or (layer.reach.paused and is_new):
                continue
            if layer.reach.canary is None or node in self._canaries[layer.where]:
                return layer
        return None

    def section_of(self, layers: Layers, entry: NodeLayer[Document] | None) -> Mapping[str, object]:
        """The section of NodeSLOs with an entry, and which version of which this is, for people.

        Made once for all nodes that have it.
        """
        where = "" if entry is None else entry.where
        if where not in self._sections:
            self._sections[where] = _section(entry, layers.cluster)
        return self._sections[where]

    def _look(self, layers: Layers, now: float) -> None:
        if layers is not self._layers:
            self._sections = {}
        self._layers, self._at, self._is_stale = layers, now, False
        nodes = self._nodes() if any(layer.reach.canary for layer in layers.nodes) else {}
        self._canaries = {
            layer.where: reach.first(
                layer.name,
                (name for name, labels in nodes.items() if layer.selects(name, labels, now)),
                layer.reach.canary,
            )
            for layer in layers.nodes
            if layer.reach.canary is not None
        }


def _section(entry: NodeLayer[Document] | None, cluster: Document) -> dict[str, object]:
    value = cluster if entry is None else entry.value
    if not value:
        return {}
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    version = blake2s(text.encode(), digest_size=4).hexdigest()
    source = "clusterStrategy" if entry is None else entry.where.partition(" ")[2]
    return {**value, "rollout": {"entry": source, "version": version}}
