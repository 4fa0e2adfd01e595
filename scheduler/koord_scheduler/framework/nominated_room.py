"""Free capacity of nodes beside pods that are nominated for them. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.nominated_columns import NominatedColumns
from koord_scheduler.framework.nominations import Nominations
from koord_scheduler.framework.rejected_beside import rejected_beside
from koord_scheduler.state.arrays import Codes, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState


@dataclass(slots=True)
class _Known:
    """The rows where nominated pods leave no room for a class, as of some positions of journals."""

    priority: int
    state: Hashable
    seen: int
    seen_nominations: int
    is_rejected: Mask


class NominatedRoom:
    """Remembers it for each class as long as its scores, and asks again about what changed."""

    def __init__(self, nodes: ClusterState, nominations: Nominations) -> None:
        self._nodes = nodes
        self._columns = NominatedColumns(nodes, nominations)

    def rows_beside(self, key: str, priority: int, scores: ClassScores, rows: Rows) -> Rows:
        """Those of feasible rows where a pod of a class fits with those nominated for each, too."""
        self._columns.follow()
        is_rejected = self._known(priority, scores)
        if is_rejected is None:
            slots = self._columns.on(priority, rows, but=key)
            taken = self._columns.rows(slots)
            is_rejected = np.zeros(len(self._nodes), np.bool_)
            is_rejected[taken] = ~self._fits(scores, taken, slots)[0]
        else:
            is_rejected = self._without_own(key, priority, scores, is_rejected)
        return rows[~is_rejected[rows]]

    def _known(self, priority: int, scores: ClassScores) -> Mask | None:
        """Return the known answers of all rows; ``None`` if they depend on more than the row."""
        nodes, journal = self._nodes, self._columns.journal
        versions = nodes.terms.version, nodes.namespaces.version, *nodes.feature_versions()
        state = nodes.generation, self._columns.version, *versions
        known = scores.beside_nominated
        changed = None
        if isinstance(known, _Known) and (known.priority, known.state) == (priority, state):
            by_nodes = nodes.journal.changed_since(known.seen)
            by_pods = journal.changed_since(known.seen_nominations)
            if by_nodes is not None and by_pods is not None:
                changed = np.union1d(by_nodes, by_pods) if len(by_pods) else by_nodes
        if changed is None or not isinstance(known, _Known):
            known = _Known(priority, state, 0, 0, np.zeros(len(nodes), np.bool_))
            changed = np.flatnonzero(nodes.is_node)
        scores.beside_nominated = None  # a plugin may fail half-way
        if not self._update(known, scores, changed):
            return None
        known.seen, known.seen_nominations = nodes.journal.position, journal.position
        scores.beside_nominated = known
        return known.is_rejected

    def _update(self, known: _Known, scores: ClassScores, rows: Rows) -> bool:
        """Ask about some rows; whether the answers depend on nothing but these."""
        known.is_rejected[rows] = False
        slots = self._columns.on(known.priority, rows) if len(rows) else rows
        if not len(slots):
            return True
        taken = self._columns.rows(slots)
        fits, is_local = self._fits(scores, taken, slots, only_local=True)
        known.is_rejected[taken] = ~fits
        return is_local

    def _without_own(self, key: str, priority: int, scores: ClassScores, is_rejected: Mask) -> Mask:
        """A pod need not leave room for itself."""
        row = self._columns.row_of(key)
        if row is None or not is_rejected[row]:
            return is_rejected
        at = np.array([row])
        slots = self._columns.on(priority, at, but=key)
        found = is_rejected.copy()
        found[at] = ~self._fits(scores, at, slots)[0]
        return found

    def _fits(
        self, scores: ClassScores, rows: Rows, slots: Codes, *, only_local: bool = False
    ) -> tuple[Mask, bool]:
        """Of each row, whether a pod fits with these; and whether that depends on the row alone.

        With ``only_local`` nothing is said where it does not.
        """
        columns, fits = self._columns, np.ones(len(rows), np.bool_)
        if not len(rows) or not len(slots):
            return fits, True
        limits = scores.plain_limits(rows, columns.different(slots))
        if only_local and not limits.are_local:
            return fits, False
        if not limits.are_all:
            found = (
                rejected_beside(scores, row, columns.usages_on(row, slots)) for row in rows.tolist()
            )
            return ~np.fromiter(found, np.bool_, len(rows)), False
        for limit in limits.limits:
            fits &= limit.room >= columns.amounts(limit, slots, rows)
        return fits, limits.are_local
