"""Report on a class's placement: the plugins' scores of the best nodes. No IO."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from koord_scheduler.framework.class_scores import ClassScores

_NUMBER = 3


@dataclass(frozen=True, slots=True)
class NodeScores:
    """A node's weighted score by each plugin that scores the class, and their ``total``.

    ``rank`` is its place among the nodes that a pod can run on; 1 is the best.
    """

    rank: int
    node: str
    total: int
    by_plugin: dict[str, int]


def best_nodes(
    scores: ClassScores, number: int = _NUMBER, also: str = ""
) -> tuple[NodeScores, ...]:
    """The nodes that a pod would go to, the first one first; none where it can run nowhere.

    The node ``also`` comes last if it is none of them, and the pod can run there.
    """
    nodes, rows = scores.nodes, scores.feasible()
    totals, by_plugin = scores.totals(rows), scores.scores(rows)
    order = (-(totals + nodes.tie_break[rows])).argsort()
    reported = np.arange(len(order)) < number
    reported |= rows[order] == nodes.row(also)
    return tuple(
        NodeScores(
            int(rank) + 1,
            nodes.name(int(rows[order[rank]])),
            int(totals[order[rank]]),
            {plugin: int(amounts[order[rank]]) for plugin, amounts in by_plugin.items()},
        )
        for rank in np.flatnonzero(reported)
    )
