"""Where a pod fits beside pods that are nominated for the same nodes. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from koord_scheduler.columns.arrays import Mask, Rows
from koord_scheduler.columns.nodes import PodUsage
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.dry_run import amount_of
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.framework.rejected_beside import rejected_beside

_ByRow = Mapping[int, Sequence[PodUsage]]


def rows_beside_nominated(scores: ClassScores, rows: Rows, nominated: Sequence[Nomination]) -> Rows:
    """Those of feasible rows where a pod of a class also fits with the pods nominated for each."""
    nodes = scores.nodes
    by_row: dict[int, list[PodUsage]] = {}
    for one in nominated:
        row = nodes.row(one.node)
        if row is not None:
            by_row.setdefault(row, []).append(one.usage)
    is_taken = np.zeros(len(nodes), np.bool_)
    is_taken[[*by_row]] = True
    shared = rows[is_taken[rows]]
    if not len(shared):
        return rows
    is_taken[shared[_fits(scores, shared, by_row)]] = False
    return rows[~is_taken[rows]]


def _fits(scores: ClassScores, rows: Rows, by_row: _ByRow) -> Mask:
    usages = [by_row[row] for row in rows.tolist()]
    different = {id(usage): usage for some in usages for usage in some}  # most pods are copies
    limits = scores.limits(rows, [*different.values()])
    if not limits.are_all:
        return np.array([not rejected_beside(scores, row, by_row[row]) for row in rows.tolist()])
    fits = np.ones(len(rows), np.bool_)
    for limit in limits.limits:
        amounts = {key: amount_of(limit, usage) for key, usage in different.items()}
        fits &= limit.room >= [sum(amounts[id(one)] for one in some) for some in usages]
    return fits
