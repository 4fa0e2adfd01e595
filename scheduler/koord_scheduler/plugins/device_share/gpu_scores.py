"""Scores of nodes for a pod with or without GPUs, and the card it gets. No IO.

What DeviceShare needs of nodes: ``place`` says where a pod fits, how good that is, and on which
card a part of one is best. There are two policies: ``fragmentation_policy`` is FGD as published,
``value_policy`` the project's own (ADR 44).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from koord_scheduler.plugins.device_share.fragmentation import (
    NodeValue,
    fragmentation,
    fragmentation_scores,
)
from koord_scheduler.plugins.device_share.gpu_nodes import (
    GpuNodes,
    GpuRequest,
    different_cards,
    fits,
    with_card,
    with_first_cards,
)
from koord_scheduler.plugins.device_share.gpu_value import gpu_value
from koord_scheduler.plugins.device_share.typical_workload import TypicalWorkload
from koord_scheduler.state.arrays import Amounts, Codes

FIRST_CARDS = -1
"""In place of a card: the first ones that have room, which is as good as any."""
_STEP = 10.0
"""Thousandths of a card that a point of a score stands for."""
_MAX_SCORE = 100.0


class GpuPolicy(NamedTuple):
    """A measure of nodes, and what its change by a placement is worth: more is better."""

    measure: NodeValue
    grade: Callable[[Amounts, Amounts], Amounts]


class GpuPlaces(NamedTuple):
    """Of each row, how good a placement there is (-inf: no room), and the best card."""

    grade: Amounts
    card: Codes


def fragmentation_policy(workload: TypicalWorkload) -> GpuPolicy:
    """FGD: the least growth of fragmentation, in whole scores from 0 to 100."""
    return GpuPolicy(fragmentation(workload), fragmentation_scores)


def value_policy(workload: TypicalWorkload) -> GpuPolicy:
    """The least loss of value, in thousandths of a card; ``as_scores`` makes scores of it."""
    return GpuPolicy(gpu_value(workload), lambda before, after: after - before)


def place(request: GpuRequest, nodes: GpuNodes, policy: GpuPolicy) -> GpuPlaces:
    """Score each node for a pod, with its card; of equally good cards the first."""
    count = len(nodes.cpu)
    found = GpuPlaces(np.full(count, -np.inf), np.full(count, FIRST_CARDS, np.intp))
    rows = np.flatnonzero(fits(request, nodes))
    if not len(rows):
        return found
    free = nodes.rows(rows)
    before = policy.measure(free)
    if not request.is_shared:
        found.grade[rows] = policy.grade(before, policy.measure(with_first_cards(request, free)))
        return found
    row, card = different_cards(request, free)
    after = policy.measure(with_card(request, free.rows(row), card))
    grade = policy.grade(before[row], after)
    order = np.lexsort((card, -grade, row))
    best = order[np.unique(row[order], return_index=True)[1]]
    found.grade[rows], found.card[rows] = grade[best], card[best]
    return found


def as_scores(grade: Amounts) -> Amounts:
    """Whole scores from 0 to 100 of the nodes that are left, of the grades of ``value_policy``.

    The best have 100, and only they: each begun hundredth of a card that is lost costs a point.
    """
    if not len(grade):
        return grade
    found: Amounts = np.maximum(_MAX_SCORE - np.ceil((grade.max() - grade) / _STEP), 0.0)
    return found
