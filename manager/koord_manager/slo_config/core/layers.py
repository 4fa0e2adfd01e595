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
) -> ConfigLayers[T]:
    """The layers in a key's JSON; what cannot be used of it is added to ``problems``.

    The part for the cluster is in the field ``cluster_in``, or it is the object itself.
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
    return ConfigLayers(cluster, tuple(_layers(listed, f"{key} {nodes_in}", cluster, overlay)))


def layered(value: Schema, cluster_in: str, nodes_in: str) -> Schema:
    """The names of all fields of a key whose layers have those of ``value``."""
    node = {"properties": value.get("properties", {}) | _OF_NODES}
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
    listed: Iterator[Fields], where: str, cluster: T, overlay: Overlay[T]
) -> Iterator[NodeLayer[T]]:
    seen: set[str] = set()
    for index, layer in enumerate(listed):
        given = dict(layer.entries())
        name = layer.text("name")
        place = f"{where}[{index}] {excerpt(name)}" if name else f"{where}[{index}]"
        if name in seen:
            layer.refuse("name", "a name that no other has", "")
        seen.update({name} - {""})
        selector = _selector(given.pop("nodeSelector", None), place, layer.ignored)
        given.pop("name", None)
        yield NodeLayer(place, selector, overlay(cluster, given, place, layer.ignored))


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
