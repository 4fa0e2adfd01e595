"""One key of the ConfigMap: a part for the whole cluster, and parts for chosen nodes. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from koord_kube.definitions.schema import Schema
from koord_kube.definitions.schema import label_selector as selector_schema
from koord_model import label_selector
from koord_model.annotations import decode
from koord_model.excerpt import excerpt
from koord_model.fields import Fields
from koord_model.label_selector import Labels, LabelSelector

from koord_manager.slo_config.core import reach
from koord_manager.slo_config.core.reach import Reach

T = TypeVar("T")
Document = Mapping[str, object]

_OF_NODES: Schema = {"name": {}, "nodeSelector": selector_schema("")}
_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class NodeLayer(Generic[T]):
    """Value for the nodes that a selector matches; ``where`` names it in lines."""

    where: str
    selector: LabelSelector
    value: T
    name: str = ""
    reach: Reach = reach.ANY

    def selects(self, node: str, labels: Labels, now: float) -> bool:
        """True if it is for a node at this time, its canary aside."""
        within = self.reach.until is None or now < self.reach.until
        named = not self.reach.names or node in self.reach.names
        return within and named and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class ConfigLayers(Generic[T]):
    """Value for the cluster, and values for certain nodes."""

    cluster: T
    nodes: tuple[NodeLayer[T], ...] = ()

    def of(self, labels: Labels) -> T:
        """Return a node's value: of the first layer that matches it, as in Koordinator."""
        for layer in self.nodes:
            if layer.selector.matches(labels):
                return layer.value
        return self.cluster

    def rivals(self, labels: Labels) -> tuple[NodeLayer[T], ...]:
        """Return layers that match a node alike, so that their order decides; none or several."""
        matching: dict[object, list[NodeLayer[T]]] = {}
        for layer in self.nodes:
            if not layer.reach.names and layer.selector.matches(labels):
                matching.setdefault(layer.reach.rank, []).append(layer)
        return next((tuple(alike) for alike in matching.values() if len(alike) > 1), ())


Overlay = Callable[[T, Document, str, list[str]], T]
"""Lays a document over a value; the text names it in the lines added to the list."""


def read(
    key: str,
    text: str,
    usual: T,
    overlay: Overlay[T],
    problems: list[str],
    *,
    cluster_in: str = "",
    nodes_in: str = "nodeConfigs",
    with_reach: bool = False,
) -> ConfigLayers[T]:
    """The layers in a key's JSON; what cannot be used of it is added to ``problems``.

    The part for the cluster is in the field ``cluster_in``, or it is the object itself.
    ``with_reach`` is whether entries for nodes may say how far they reach; they are then in the
    order in which they apply.
    """
    document = _decoded(key, text, problems)
    fields = Fields(document, key, problems)
    part: object = dict(fields.entries()) if not cluster_in else document.get(cluster_in)
    if part is not None and not isinstance(part, Mapping):
        fields.refuse(cluster_in, "an object", "")
        part = None
    where = f"{key} {cluster_in}".strip()
    cluster = overlay(usual, part or {}, where, problems)
    if problems:  # each layer would say the same again
        return ConfigLayers(cluster)
    listed = fields.objects(nodes_in)
    layers = _layers(listed, f"{key} {nodes_in}", cluster, overlay, with_reach)
    return ConfigLayers(cluster, tuple(sorted(layers, key=lambda layer: layer.reach.rank)))


def layered(value: Schema, cluster_in: str, nodes_in: str, *, with_reach: bool) -> Schema:
    """The names of all fields of a key whose layers have those of ``value``."""
    more: Schema = {name: {} for name in reach.FIELDS} if with_reach else {}
    if with_reach:
        more["bounds"] = {"properties": {name: {} for name in reach.BOUNDS}}
    node = {"properties": value.get("properties", {}) | _OF_NODES | more}
    cluster = {cluster_in: value} if cluster_in else value.get("properties", {})
    return {"properties": {**cluster, nodes_in: {"items": node}}}


def _decoded(key: str, text: str, problems: list[str]) -> Document:
    try:
        document = decode(_ANY, text)
    except ValueError as error:
        problems.append(f"{key} is not valid JSON: {error}")
        return {}
    if document is not None and not isinstance(document, Mapping):
        problems.append(f"{key} is {excerpt(text)}; expected an object")
        return {}
    return document or {}


def _layers(
    listed: Iterator[Fields], where: str, cluster: T, overlay: Overlay[T], with_reach: bool
) -> Iterator[NodeLayer[T]]:
    seen: set[str] = set()
    for index, layer in enumerate(listed):
        given = dict(layer.entries())
        name = layer.text("name")
        place = f"{where}[{index}] {excerpt(name)}" if name else f"{where}[{index}]"
        if name in seen:
            layer.refuse("name", "a name that no other has", "")
        seen.update({name} - {""})
        selected = given.pop("nodeSelector", None)
        given.pop("name", None)
        far = reach.ANY
        if with_reach:
            far = reach.read(layer)
            given = {field: value for field, value in given.items() if field not in reach.FIELDS}
            if far.canary is not None and not name:
                layer.refuse("name", "a name beside canary, which chooses nodes by it", "")
        selector = LabelSelector()
        if selected is not None or not far.names:
            selector = _selector(selected, place, layer.ignored)
        value = overlay(cluster, given, place, layer.ignored)
        yield NodeLayer(place, selector, value, name, far)


def _selector(given: object, where: str, problems: list[str]) -> LabelSelector:
    at = f"{where} nodeSelector"
    try:
        selector = label_selector.parse(given, at)
    except ValueError as error:
        problems.append(str(error))
        return LabelSelector()
    if not selector.requirements:
        problems.append(f"{at} is empty; expected matchLabels or matchExpressions")
    return selector
