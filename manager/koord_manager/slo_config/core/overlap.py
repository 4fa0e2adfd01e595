"""Layers that match the same nodes: which of them holds then depends on their order. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any

from koord_model.excerpt import excerpt
from koord_model.label_selector import Labels, LabelSelector, Operator

from koord_manager.slo_config.core.layers import ConfigLayers

_MOST_SAMPLES = 256


def overlap(key: str, layers: ConfigLayers[Any], nodes: Mapping[str, Labels]) -> str:
    """A line on two layers that match the same node, one there is or a plain one; "" if none do.

    Two selectors that could both match some node, but are each about another label, do not
    overlap before there is such a node, as in Koordinator.
    """
    if len(layers.nodes) < 2:
        return ""
    for layer in layers.nodes:
        for labels in _samples(layer.selector):
            text = ", ".join(f"{name}={value}" for name, value in labels.items())
            line = _both(key, layers, labels, f"nodes labelled {excerpt(text)}")
            if line:
                return line
    # Not which: who may write the configuration may not be one who may list nodes.
    found = (_both(key, layers, labels, "a node there is") for labels in _kinds(layers, nodes))
    return next((line for line in found if line), "")


def _kinds(layers: ConfigLayers[Any], nodes: Mapping[str, Labels]) -> Iterator[Mapping[str, str]]:
    """One node of each kind: thousands differ in only a few of the selected labels."""
    keys = {
        requirement.key for layer in layers.nodes for requirement in layer.selector.requirements
    }
    seen: set[frozenset[tuple[str, str]]] = set()
    for labels in nodes.values():
        kind = frozenset((key, labels[key]) for key in keys if key in labels)
        if kind not in seen:
            seen.add(kind)
            yield dict(kind)


def _both(key: str, layers: ConfigLayers[Any], labels: Labels, whom: str) -> str:
    rivals = layers.rivals(labels)
    if not rivals:
        return ""
    first, second = rivals[0].where, rivals[1].where.removeprefix(f"{key} ")
    return f"{first} and {second} both match {whom}; expected selectors that exclude each other"


def _samples(selector: LabelSelector) -> Iterator[Labels]:
    """Labels of nodes that have no more than a selector asks for."""
    keys, choices = [], []
    for requirement in selector.requirements:
        if requirement.operator in (Operator.IN, Operator.EXISTS):
            keys.append(requirement.key)
            choices.append(sorted(requirement.values) or [""])
    for values in islice(product(*choices), _MOST_SAMPLES):
        yield dict(zip(keys, values, strict=True))
