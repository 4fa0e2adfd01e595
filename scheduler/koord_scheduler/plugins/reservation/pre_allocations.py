"""Answers of the plugin Reservation about a reservation that may take pods over. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from koord_scheduler.plugin import AcrossNodes, Reason, without_reason
from koord_scheduler.plugins.reservation.pre_allocatable_pods import PreAllocatablePods
from koord_scheduler.plugins.reservation.pre_allocation import (
    NO_POD,
    PreAllocationAnswer,
    pre_allocation_answer,
)
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.resources import PODS


class PreAllocations:
    """Answers about rows that have such pods, kept until they change."""

    def __init__(
        self,
        reservation: Reservation,
        nodes: ClusterState,
        ignored: frozenset[str],
        *,
        prefers_none: bool,
    ) -> None:
        policy = reservation.pre_allocation
        self.is_required = policy is not None and policy.is_required
        self.reservation = reservation
        self.pods = PreAllocatablePods(reservation, nodes)
        self._nodes = nodes
        self._ignored = ignored
        self._prefers_none = prefers_none
        self._resources = dict.fromkeys((*reservation.allocatable, PODS))
        self._answers: dict[int, PreAllocationAnswer] = {}
        self._state: Hashable = None
        self._seen = 0

    def answers(self, rows: Rows) -> Iterator[tuple[int, PreAllocationAnswer]]:
        """The answers about those of ``rows`` that have any, each with its place."""
        for place in np.flatnonzero(self.pods.has(rows)).tolist():
            yield place, self.answer(int(rows[place]))

    def answer(self, row: int) -> PreAllocationAnswer:
        """The answer about a row."""
        self._forget_changed()
        found = self._answers.get(row)
        if found is None:
            found = self._answers[row] = pre_allocation_answer(
                self.reservation,
                self._free(row),
                self.pods.on(row),
                ignored=self._ignored,
                prefers_none=self._prefers_none,
            )
        return found

    def _free(self, row: int) -> dict[str, float]:
        """Return the rest of a node beside all pods."""
        nodes = self._nodes
        resources = nodes.resources
        usages = [pod.usage for pod in self.pods.usages(row)] if nodes.lacks_pods(row) else []
        lacking = [dict(usage.request) for usage in usages]
        columns = {name: resources.column(name) for name in self._resources}
        return {
            name: float(resources.allocatable[column, row] - resources.requested[column, row])
            - sum(one.get(name, 0.0) for one in lacking)
            for name, column in columns.items()
        }

    def _forget_changed(self) -> None:
        nodes = self._nodes
        same = nodes.generation == self._state
        changed = nodes.journal.changed_since(self._seen) if same else None
        if changed is None:
            self._answers.clear()
        else:
            for row in changed.tolist():
                self._answers.pop(row, None)
        self._state, self._seen = nodes.generation, nodes.journal.position


class PreAllocatingReservations(AcrossNodes):
    """Answers with those of ``others``, as about any reservation that has no node."""

    def __init__(self, found: PreAllocations, others: AcrossNodes) -> None:
        self._found = found
        self._others = others

    def filter(self, rows: Rows) -> Mask | None:
        fits = np.full(len(rows), not self._found.is_required)
        for place, answer in self._found.answers(rows):
            fits[place] = answer.fits
        passed = self._others.filter(rows)
        return fits if passed is None else fits & passed

    def reasons(self, rows: Rows) -> list[Reason]:
        by_text: dict[str, list[int]] = {}
        found = self._others.reasons(rows)
        answered = ~without_reason(found, rows)
        notes = {}
        for place, answer in self._found.answers(rows):
            notes[place] = self._note(int(rows[place]))
            for text in () if answered[place] else answer.reasons:
                by_text.setdefault(text, []).append(place)
            answered[place] = True
        for text, places in by_text.items():
            at = np.isin(np.arange(len(rows)), places)
            found.append(Reason(text, at, note=lambda place: notes.get(place, "")))
        if self._found.is_required:
            found.append(Reason(NO_POD, ~answered, resolvable=False))
        return found

    def score(self, rows: Rows) -> Amounts | None:
        policy = self._found.reservation.pre_allocation
        scores = np.full(len(rows), 100.0 if policy is not None and policy.multiple else 0.0)
        for place, answer in self._found.answers(rows):
            scores[place] = answer.score
        return scores

    def _note(self, row: int) -> str:
        """The pods that it may take over there."""
        pods = ", ".join(sorted(usage.key for usage in self._found.pods.usages(row)))
        return f"reservation {self._found.reservation.name} may take over {pods}"
