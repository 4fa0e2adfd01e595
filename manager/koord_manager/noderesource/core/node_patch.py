"""Patches that make a Node as desired. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from koord_model.demand import amounts
from koord_model.quantity import quantity_text

from koord_manager.noderesource.core.desired_node import DesiredNode

Object = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodePatches:
    """JSON merge patches: for the Node, and for its subresource ``status``.

    ``None`` if nothing must be written. They hold only what differs.
    """

    metadata: Object | None = None
    status: Object | None = None


def patches(
    node: Mapping[str, Any], desired: Iterable[DesiredNode], threshold: float = 0.0
) -> NodePatches:
    """Return the patches that make the Node as desired.

    The status is left as it is while no resource needs it (``needs_sync``); with the default
    each difference does. A Node without amounts of its own has not been reported by its kubelet
    yet: its status is left alone.

    Raises:
        ValueError: a name has two different desired values; the line names both.
    """
    every = tuple(desired)
    labels = _joined("label", (desired_node.labels for desired_node in every))
    annotations = _joined("annotation", (desired_node.annotations for desired_node in every))
    resources = _joined("resource", (desired_node.resources for desired_node in every))
    return NodePatches(_metadata(node, labels, annotations), _status(node, resources, threshold))


def needs_sync(old: int | None, new: int | None, threshold: float) -> bool:
    """True if an amount moved by more than ``threshold``, a fraction of the old one.

    One that appears or goes (``None``) always does.
    """
    if old is None or new is None:
        return old is not new
    return abs(new - old) > old * threshold


def _joined(kind: str, groups: Iterable[Mapping[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for group in groups:
        for name, value in group.items():
            if found.setdefault(name, value) != value:
                both = f"{found[name]!r} and {value!r}"
                raise ValueError(f"{kind} {name} has the desired values {both}; expected one")
    return found


def _metadata(
    node: Mapping[str, Any], labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
) -> Object | None:
    had = node.get("metadata") or {}
    wanted = {"labels": labels, "annotations": annotations}
    found = {kind: _differing(had.get(kind) or {}, values) for kind, values in wanted.items()}
    found = {kind: values for kind, values in found.items() if values}
    return {"metadata": found} if found else None


def _differing(had: Mapping[str, object], values: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in values.items() if had.get(name) != value}


def _status(
    node: Mapping[str, Any], resources: Mapping[str, int | None], threshold: float
) -> Object | None:
    status = node.get("status") or {}
    had = {kind: amounts(status.get(kind)) for kind in ("capacity", "allocatable")}
    moved = (
        needs_sync(before.get(name), value, threshold)
        for before in had.values()
        for name, value in resources.items()
    )
    if not all(had.values()) or not any(moved):
        return None
    found = {kind: _differing(before, resources) for kind, before in had.items()}
    return {"status": {kind: _quantities(values) for kind, values in found.items() if values}}


def _quantities(values: Mapping[str, int | None]) -> dict[str, str | None]:
    return {
        name: None if value is None else quantity_text(name, value)
        for name, value in values.items()
    }
