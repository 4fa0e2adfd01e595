"""Why the pods of a class go where they go: what plugins make of the best nodes. No IO."""

from __future__ import annotations

from dataclasses import dataclass

from koord_scheduler.framework.class_scores import ClassScores

_NUMBER = 3


@dataclass(frozen=True, slots=True)
class NodeScores:
    """A node's weighted score by each plugin that scores the class, and their ``total``."""

    node: str
    total: int
    by_plugin: dict[str, int]


def best_nodes(scores: ClassScores, number: int = _NUMBER) -> tuple[NodeScores, ...]:
    """The nodes that a pod would go to, the first one first; none where it can run nowhere."""
    nodes, rows = scores.nodes, scores.feasible()
    totals, by_plugin = scores.totals(rows), scores.scores(rows)
    order = (-(totals + nodes.tie_break[rows])).argsort()[:number]
    return tuple(
        NodeScores(
            nodes.name(int(rows[at])),
            int(totals[at]),
            {plugin: int(amounts[at]) for plugin, amounts in by_plugin.items()},
        )
        for at in order
    )
