"""Quotas in the order of their tree: children below their parents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from koord_model.elastic_quota import ROOT_QUOTA, ElasticQuota

UNLIMITED = 1 << 60
"""Nobody has so much: a max of it is none."""


class PlacedQuota(NamedTuple):
    """A quota, how far below the root it is, and all quotas of its parent, itself included."""

    depth: int
    quota: ElasticQuota
    siblings: Sequence[ElasticQuota]


def in_order(quotas: Mapping[str, ElasticQuota]) -> Iterator[PlacedQuota]:
    """Quotas by name, each followed by its children; the root's own first.

    A quota whose parent is not among them, or that is its own ancestor, is a child of the root.
    """
    children: defaultdict[str, list[ElasticQuota]] = defaultdict(list)
    for name in sorted(quotas):
        children[_parent(quotas[name], quotas)].append(quotas[name])
    waiting = [PlacedQuota(0, quota, children[ROOT_QUOTA]) for quota in children[ROOT_QUOTA][::-1]]
    while waiting:
        placed = waiting.pop()
        yield placed
        below = children.get(placed.quota.name, [])
        waiting += [PlacedQuota(placed.depth + 1, quota, below) for quota in below[::-1]]


def _parent(quota: ElasticQuota, quotas: Mapping[str, ElasticQuota]) -> str:
    seen, name = {quota.name}, quota.parent
    while name in quotas and name not in seen:
        seen.add(name)
        name = quotas[name].parent
    is_placed = quota.parent in quotas and name not in seen
    return quota.parent if is_placed else ROOT_QUOTA
