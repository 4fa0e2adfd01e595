"""Sets of nodes by their labels. No IO."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from koord_scheduler.objects.node_selector import NodeRequirement

Labels = Mapping[str, str]
Topology = tuple[tuple[NodeRequirement, ...], ...]
"""Nodes that meet all requirements of one of these terms; ``None`` in its place is all nodes."""

_ANYWHERE = ("", "")


def is_reachable(topology: Topology | None, labels: Labels) -> bool:
    """True if a node with these labels is one of them."""
    if topology is None:
        return True
    return any(all(one.allows(labels.get(one.key)) for one in term) for term in topology)


def label_keys(topology: Topology | None) -> set[str]:
    """The labels that decide whether a node is one of them."""
    return {one.key for term in topology or () for one in term}


class LocatedObject(Protocol):
    """Something that some nodes can use; ``order`` is unique."""

    @property
    def order(self) -> tuple[int, str]:
        """The lowest is preferred."""
        ...

    @property
    def topology(self) -> Topology | None:
        """The nodes that can use it."""
        ...


_Storage = TypeVar("_Storage", bound=LocatedObject)


class LabelIndex(Generic[_Storage]):
    """Things by the labels of the nodes that can use them.

    Most belong to one node or zone. They lie under each value of a label that such nodes have, so
    that nobody looks at those of other nodes. ``label_keys`` are the labels that decide about any
    of them, or did.
    """

    def __init__(self) -> None:
        self.label_keys: set[str] = set()
        self._by_label: dict[str, dict[str, list[_Storage]]] = {}

    def add(self, storage: _Storage) -> None:
        """Something is there."""
        for key, value in _places(storage.topology):
            things = self._by_label.setdefault(key, {}).setdefault(value, [])
            insort(things, storage, key=_order)
        self.label_keys |= label_keys(storage.topology)

    def remove(self, storage: _Storage) -> None:
        """Something is not there any more."""
        for key, value in _places(storage.topology):
            by_value = self._by_label[key]
            del by_value[value][bisect_left(by_value[value], storage.order, key=_order)]
            if not by_value[value]:
                del by_value[value]
            if not by_value:
                del self._by_label[key]

    def at(self, labels: Labels, least: int | None = None) -> Iterator[_Storage]:
        """Things that a node with these labels can use, in order, from ``(least, …)`` on."""
        lists: list[Iterable[_Storage]] = []
        for key, by_value in self._by_label.items():
            things = by_value.get(labels.get(key, ""))
            if things is not None and least is None:
                lists.append(things)
            elif things is not None:
                lists.append(things[bisect_left(things, (least, ""), key=_order) :])
        merged = lists[0] if len(lists) == 1 else heapq.merge(*lists, key=_order)
        return (one for one in merged if is_reachable(one.topology, labels))


def _order(located_object: LocatedObject) -> tuple[int, str]:
    return located_object.order


def _places(topology: Topology | None) -> Iterable[tuple[str, str]]:
    """Labels, one of which each of these nodes has."""
    found: set[tuple[str, str]] = set()
    for term in ((),) if topology is None else topology:
        within = next((one for one in term if one.operator == "In"), None)
        if within is None:
            return (_ANYWHERE,)
        found.update((within.key, value) for value in within.values)
    return found
