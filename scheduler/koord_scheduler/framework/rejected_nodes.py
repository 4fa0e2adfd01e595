"""Nodes that reject a pod, and their reasons. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.state.arrays import Rows


class RejectedNodes(NamedTuple):
    """Rows that ``plugin`` rejects for a reason, as the first plugin that rejects them."""

    plugin: str
    reason: str
    rows: Rows


def rejected_nodes(scores: ClassScores, feasible: Rows) -> Iterator[RejectedNodes]:
    """Return the reasons of nodes that are not ``feasible``; a node may have several.

    Where no plugin rejects one, its room is kept for nominated pods.
    """
    rows = np.flatnonzero(scores.nodes.is_node)
    left = np.ones(len(rows), np.bool_)
    for plugin in scores.reasons(rows):
        for reason in plugin.reasons:
            rejected = reason.rows & left
            if rejected.any():
                yield RejectedNodes(plugin.plugin, reason.text, rows[rejected])
        left &= ~plugin.rejects
    held = np.setdiff1d(rows[left], feasible)
    if len(held):
        yield RejectedNodes("", "room is kept for nominated pods", held)
