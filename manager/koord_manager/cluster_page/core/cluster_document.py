"""The document of the page: nodes in columns, quotas, rollouts, evictions. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord_model.elastic_quota import ElasticQuota

from koord_manager.cluster_page.core.quota_rows import quota_rows
from koord_manager.noderesource.core.usage import ClusterUsage

Document = dict[str, Any]

MOST_NODES = 20_000
"""Shown ones: 5 MB if all names are as long as they can be."""


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """The leader's knowledge at one moment.

    ``usage`` is ``None`` where it is not calculated, ``closed`` are the nodes that take no pods.
    ``rollouts``, ``node_evictions`` (which koordlets report with rollouts) and ``backstop`` are
    ``None`` where their gates are off.
    """

    usage: ClusterUsage | None
    is_complete: bool
    closed: frozenset[str]
    quotas: Mapping[str, ElasticQuota]
    rollouts: Sequence[Mapping[str, Any]] | None
    node_evictions: Document | None
    backstop: Document | None


def cluster_document(summary: ClusterSummary) -> Document:
    """Return the summary as plain data, with bounds."""
    return {
        "nodes": None if summary.usage is None else _nodes(summary.usage, summary.closed),
        "complete": summary.is_complete,
        "quotas": quota_rows(summary.quotas),
        "rollouts": None if summary.rollouts is None else list(summary.rollouts),
        "node_evictions": summary.node_evictions,
        "backstop": summary.backstop,
    }


def _nodes(usage: ClusterUsage, closed: frozenset[str]) -> Document:
    """Nodes by name, a column each; ``closed`` has the places of those that take no pods."""
    order = sorted(range(len(usage.names)), key=usage.names.__getitem__)[:MOST_NODES]
    names = [usage.names[place] for place in order]
    columns = {**usage.percents, **{f"capacity_{key}": one for key, one in usage.capacity.items()}}
    return {
        "count": len(usage.names),
        "names": names,
        **{key: [column[place] for place in order] for key, column in columns.items()},
        "closed": [place for place, name in enumerate(names) if name in closed],
        "sums": usage.sums,
    }
