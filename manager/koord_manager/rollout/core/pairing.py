"""Pairs of nodes to compare: a canary, and the node most like it that is none. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MOST_PAIRS = 100
"""Of one entry: more say hardly more, and each takes some hundred bytes."""
_MOST_APART = 0.15
"""Difference of two loads, as shares of the CPUs, at most."""


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """Size and class of a node, and the share of its CPUs that is used."""

    kind: tuple[str, float]
    load: float


def pair(
    canaries: Iterable[str], others: Iterable[str], traits: Mapping[str, NodeTraits], most: int
) -> list[tuple[str, str]]:
    """Each canary with the other node of its kind whose load is nearest; each node once.

    A canary without such a node is left out, and so is a node whose traits are not known.
    """
    free: dict[tuple[str, float], list[tuple[float, str]]] = {}
    for name in others:
        if (known := traits.get(name)) is not None:
            free.setdefault(known.kind, []).append((known.load, name))
    found: list[tuple[str, str]] = []
    for name in sorted(canaries):
        if len(found) >= most:
            break
        own = traits.get(name)
        like = free.get(own.kind, []) if own is not None else []
        if own is None or not like:
            continue
        nearest = min(like, key=lambda other, load=own.load: (abs(other[0] - load), other[1]))  # type: ignore[misc]
        if abs(nearest[0] - own.load) <= _MOST_APART:
            like.remove(nearest)
            found.append((name, nearest[1]))
    return found
