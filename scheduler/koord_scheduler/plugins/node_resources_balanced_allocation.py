"""NodeResourcesBalancedAllocation: a node's resources are best used up evenly. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar

import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.plugin import MAX_SCORE, Plugin, Score
from koord_scheduler.plugins.dynamic_resources.backed_resources import add_devices, devices_state
from koord_scheduler.state.arrays import Amounts, Mask, Rows, picked
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.resources import ALWAYS


class NodeResourcesBalancedAllocation(Plugin):
    """Kubernetes' plugin of that name; ``resources`` are those that it compares."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    reads_labels: ClassVar[bool] = False

    def __init__(self, resources: Iterable[str] = (CPU, MEMORY)) -> None:
        self._resources = tuple(resources)

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        amounts = dict(pod.amounts)
        asked = {name: float(amounts.get(name, 0)) for name in self._resources}
        if not any(asked.values()):
            return None
        resources = nodes.resources
        compared = [name for name, amount in asked.items() if amount or name in ALWAYS]
        columns = resources.columns(compared)
        amount = np.array([[asked[name]] for name in compared])

        deviation = _deviation_of_two if len(compared) == 2 else _deviation

        def score(rows: Rows) -> Amounts:
            has = picked(resources.allocatable, columns.now, rows)
            taken = picked(resources.requested, columns.now, rows)
            if pod.extended_resources:
                add_devices(pod, nodes, compared, rows, has, taken)
            known = has > 0
            np.maximum(has, 1.0, out=has)
            before = _evenness(deviation(np.minimum(taken / has, 1.0), known))
            taken += amount
            after = _evenness(deviation(np.minimum(taken / has, 1.0), known))
            half = MAX_SCORE / 2
            found: Amounts = half + np.floor((half + after - before) / 2)
            return found

        return score

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Hashable:
        return devices_state(pod, nodes)


def _evenness(deviation: Amounts) -> Amounts:
    """100 where all resources are taken alike, 50 where they are as uneven as can be."""
    found: Amounts = np.floor((1 - deviation) * MAX_SCORE)
    return found


def _deviation_of_two(fractions: Amounts, known: Mask) -> Amounts:
    """As Kubernetes has it for two resources: the same, but for what rounding makes of it."""
    found: Amounts = np.abs((fractions[0] - fractions[1]) / 2)
    found *= known[0] & known[1]
    return found


def _deviation(fractions: Amounts, known: Mask) -> Amounts:
    """The standard deviation of the fractions that are taken of resources, by row.

    Only resources count that the node has: those ``known``.
    """
    count = np.maximum(known.sum(axis=0), 1)
    values = np.where(known, fractions, 0.0)
    mean = sum(values, np.zeros(len(count))) / count
    squares = sum(np.where(known, (values - mean) ** 2, 0.0), np.zeros(len(count)))
    apart = values.max(axis=0) - np.where(known, fractions, 1.0).min(axis=0)
    found: Amounts = np.where(count == 2, apart / 2, np.sqrt(squares / count))
    return found
