"""NodeResourcesBalancedAllocation: a node's resources are best used up evenly. No IO."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from koord_model.keys import CPU, MEMORY

from koord_scheduler.plugin import MAX_SCORE, Dependence, Plugin, RowScore, Score
from koord_scheduler.state.arrays import Amounts, Mask, Rows, picked
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.resources import ALWAYS
from koord_scheduler.state.room import EVEN, RowsRoom, evenness_of_two

_HALF = MAX_SCORE / 2
_UNCHANGED = _HALF + _HALF // 2
"""The score where a pod changes nothing."""


class NodeResourcesBalancedAllocation(Plugin):
    """Kubernetes' plugin of that name; ``resources`` are those that it compares."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    reads_labels: ClassVar[bool] = False

    def __init__(self, resources: Iterable[str] = (CPU, MEMORY)) -> None:
        self._resources = tuple(resources)

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        asked = self._asked(pod)
        if not any(asked.values()):
            return None
        resources = nodes.resources
        compared = [name for name, amount in asked.items() if amount or name in ALWAYS]
        columns = resources.columns(compared)
        amount = np.array([[asked[name]] for name in compared])

        deviation = _deviation_of_two if len(compared) == 2 else _deviation
        may_be_backed = nodes.backing.concerns(pod)
        is_usual = compared == [CPU, MEMORY] and not may_be_backed

        def score(rows: Rows) -> Amounts:
            if is_usual and not (room := resources.room().of(rows)).lacks:
                return _score_of_both(room, amount)
            has = picked(resources.allocatable, columns.now, rows)
            taken = picked(resources.requested, columns.now, rows)
            if may_be_backed:
                nodes.backing.add(pod, compared, rows, has, taken)
            known = has > 0
            np.maximum(has, 1.0, out=has)
            before = _evenness(deviation(np.minimum(taken / has, 1.0), known))
            taken += amount
            return _score(_evenness(deviation(np.minimum(taken / has, 1.0), known)), before)

        return score

    def score_row(self, pod: PodClass, nodes: ClusterState) -> RowScore | None:
        asked, resources = self._asked(pod), nodes.resources
        compared = [name for name, amount in asked.items() if amount or name in ALWAYS]
        if nodes.backing.concerns(pod) or len(compared) != 2:
            return None
        columns = resources.columns(compared)
        first_more, second_more = (asked[name] for name in compared)

        def score(row: int) -> float:
            first, second = columns.listed
            has, taken = resources.allocatable.item, resources.requested.item
            has_first, has_second = has(first, row), has(second, row)
            if not (has_first > 0 and has_second > 0):
                return _UNCHANGED  # as even with the pod as without
            took_first, took_second = taken(first, row), taken(second, row)
            before = min(took_first / has_first, 1.0) - min(took_second / has_second, 1.0)
            took_first += first_more
            took_second += second_more
            after = min(took_first / has_first, 1.0) - min(took_second / has_second, 1.0)
            was = math.floor((1 - abs(before / 2)) * EVEN)
            becomes = math.floor((1 - abs(after / 2)) * EVEN)
            return _HALF + (_HALF + becomes - was) // 2

        return score

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        return nodes.backing.version if nodes.backing.concerns(pod) else None

    def _asked(self, pod: PodClass) -> dict[str, float]:
        amounts = dict(pod.amounts)
        return {name: float(amounts.get(name, 0)) for name in self._resources}


def _score_of_both(room: RowsRoom, amount: Amounts) -> Amounts:
    """By CPU and memory, of nodes that have both."""
    fractions = room.requested + amount
    fractions /= room.divisors
    return _score(evenness_of_two(fractions), room.evenness)


def _score(after: Amounts, before: Amounts) -> Amounts:
    """Higher where a pod makes a node evener; ``after`` is overwritten, all are whole numbers."""
    after -= before
    after += _HALF + MAX_SCORE  # half of MAX_SCORE is added last, halved here
    after *= 0.5
    return np.floor(after, out=after)


def _evenness(deviation: Amounts) -> Amounts:
    """100 where all resources are taken alike, 50 where they are as uneven as can be."""
    found: Amounts = np.floor((1 - deviation) * EVEN)
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
