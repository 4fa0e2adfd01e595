"""NodeResourcesBalancedAllocation: a node's resources are best used up evenly. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.columns.resources import ALWAYS
from koord_scheduler.framework.plugin import MAX_SCORE, Plugin, Score


class NodeResourcesBalancedAllocation(Plugin):
    """Kubernetes' plugin of that name; ``resources`` are those that it compares."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"

    def __init__(self, resources: Iterable[str] = (CPU, MEMORY)) -> None:
        self._resources = tuple(resources)

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        amounts = dict(pod.amounts)
        asked = {name: float(amounts.get(name, 0)) for name in self._resources}
        if not any(asked.values()):
            return None
        resources = nodes.resources
        numbered = [
            (resources.number(name), amount)
            for name, amount in asked.items()
            if amount or name in ALWAYS
        ]

        def score(rows: Rows) -> Amounts:
            before, after = [], []
            for number, amount in numbered:
                has, taken = resources.allocatable[number][rows], resources.requested[number][rows]
                before.append(_fraction(taken, has))
                after.append(_fraction(taken + amount, has))
            half = MAX_SCORE / 2
            found: Amounts = half + np.floor((half + _evenness(after) - _evenness(before)) / 2)
            return found

        return score


def _fraction(taken: Amounts, has: Amounts) -> Amounts:
    """How much of a resource is taken, at most 1; not a number where there is none."""
    return np.where(has > 0, np.minimum(taken / np.maximum(has, 1.0), 1.0), np.nan)


def _evenness(fractions: list[Amounts]) -> Amounts:
    """100 where all resources are taken alike, 50 where they are as uneven as can be.

    One less the standard deviation of the fractions, of those resources that the node has.
    """
    if len(fractions) == 2:
        # As Kubernetes has it for two: the same, but for what rounding makes of it.
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
        deviation[np.isnan(deviation)] = 0.0
    else:
        deviation = _deviation(np.array(fractions))
    found: Amounts = np.floor((1 - deviation) * MAX_SCORE)
    return found


def _deviation(fractions: Amounts) -> Amounts:
    """The standard deviation of each column, without what is not a number; 0 of one number."""
    known = ~np.isnan(fractions)
    count = np.maximum(known.sum(axis=0), 1)
    values = np.where(known, fractions, 0.0)
    mean = sum(values, np.zeros(len(count))) / count
    squares = sum(np.where(known, (values - mean) ** 2, 0.0), np.zeros(len(count)))
    apart = values.max(axis=0) - np.where(known, fractions, 1.0).min(axis=0)
    found: Amounts = np.where(count == 2, apart / 2, np.sqrt(squares / count))
    return found
