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
        self._sections: dict[tuple[str, bool], Mapping[str, object]] = {}
        self.held: Callable[[NodeLayer[Document]], bool] = lambda _layer: False
        """True if an entry is paused by somebody else than itself."""
        self._at = 0.0
        self._is_stale = False
        self.changes = 0
        """Number of changes that may have given a node another entry."""

    def node_changed(self) -> None:
        """A node came, went or got other labels: look at all again at the next ``refresh``."""
        self._is_stale = True
        self.changes += 1

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
            if not layer.selects(node, labels, self._at) or (is_new and self.is_paused(layer)):
                continue
            if layer.reach.canary is None or node in self._canaries[layer.where]:
                return layer
        return None

    def is_paused(self, layer: NodeLayer[Document]) -> bool:
        """True if the nodes of an entry are to keep what they have."""
        return layer.reach.paused or self.held(layer)

    def section_of(
        self, layers: Layers, entry: NodeLayer[Document] | None, *, is_compared: bool = False
    ) -> Mapping[str, object]:
        """The section of NodeSLOs with an entry, and which version of which this is, for people.

        Made once for all nodes that have it. A node that ``is_compared`` with a canary says its
        version, also where it has nothing else of ours.
        """
        key = "" if entry is None else entry.where, is_compared
        if key not in self._sections:
            self._sections[key] = _section(entry, layers.cluster, is_compared=is_compared)
        return self._sections[key]

    def selects(self, layer: NodeLayer[Document], node: str, labels: Labels) -> bool:
        """True if an entry is for a node at the time of the last look, its canary aside."""
        return layer.selects(node, labels, self._at)

    def is_compared(self, layers: Layers, node: str, labels: Labels) -> bool:
        """True if an entry that has a canary selects a node."""
        return any(
            layer.reach.canary is not None and layer.selects(node, labels, self._at)
            for layer in layers.nodes
        )

    def _look(self, layers: Layers, now: float) -> None:
        if layers is not self._layers:
            self._sections = {}
        self._layers, self._at, self._is_stale = layers, now, False
        self.changes += 1
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


def version_of(value: Document) -> str:
    """The version of what NodeSLOs get: a hash of it."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return blake2s(text.encode(), digest_size=4).hexdigest()


def _section(
    entry: NodeLayer[Document] | None, cluster: Document, *, is_compared: bool
) -> dict[str, object]:
    value = cluster if entry is None else entry.value
    if not value and not is_compared:
        return {}
    source = "clusterStrategy" if entry is None else entry.where.partition(" ")[2]
    return {**value, "rollout": {"entry": source, "version": version_of(value)}}
