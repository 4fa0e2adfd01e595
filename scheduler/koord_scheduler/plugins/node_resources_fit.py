"""NodeResourcesFit: a node has room for what a pod asks for; the more room is left, the better.

Scores as Kubernetes' strategy LeastAllocated. No IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.columns.resources import ALWAYS, SCORED
from koord_scheduler.framework.plugin import MAX_SCORE, Filter, Plugin, Score


class NodeResourcesFit(Plugin):
    """Kubernetes' plugin of that name; ``weights`` are those of resources in its score."""

    name: ClassVar[str] = "NodeResourcesFit"

    def __init__(self, weights: Mapping[str, int] | None = None) -> None:
        self._weights = dict(weights or {CPU: 1, MEMORY: 1})

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        request = nodes.usage(pod.requests).request

        def can_run(rows: Rows) -> Mask:
            resources = nodes.resources
            found = np.ones(len(rows), np.bool_)
            for number, amount in request:
                free = resources.allocatable[number, rows] - resources.requested[number, rows]
                found &= amount <= free
            return found

        return can_run

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        resources = nodes.resources
        amounts = dict(pod.amounts) | {CPU: pod.scored_cpu, MEMORY: pod.scored_memory}
        parts = [
            (resources.number(name), SCORED.get(name), amounts.get(name, 0), weight)
            for name, weight in self._weights.items()
            if amounts.get(name) or name in ALWAYS
        ]

        def score(rows: Rows) -> Amounts:
            total, weights = np.zeros(len(rows)), np.zeros(len(rows))
            for number, scored, amount, weight in parts:
                has = resources.allocatable[number, rows]
                taken = resources.requested[number] if scored is None else resources.scored[scored]
                left = has - taken[rows] - amount
                total += weight * _least_allocated(left, has)
                weights += weight * (has > 0)
            return np.floor(total / np.maximum(weights, 1.0))

        return score


def _least_allocated(left: Amounts, has: Amounts) -> Amounts:
    """Per cent that are left of a resource; 0 where it is not enough, or there is none."""
    found: Amounts = np.floor(np.maximum(left, 0.0) * MAX_SCORE / np.maximum(has, 1.0))
    return found
