"""Check of columns against pods, a few nodes at a time. No IO.

Columns are kept up to date by differences. A defect there would cost room for ever, or promise room
that is not there.
"""

from __future__ import annotations

import numpy as np

from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.resources import NOWHERE

ROUND_SECONDS = 300
"""After so many calls every row was looked at."""


class SelfCheck:
    """Recounts what pods use, and repairs what differs."""

    def __init__(self, nodes: ClusterState, placed: PlacedPods) -> None:
        self._nodes = nodes
        self._placed = placed
        self._next = 0
        self.repaired = 0
        """Nodes whose columns were wrong."""

    def check_some(self) -> list[str]:
        """Look at the next rows; returns the names of nodes whose columns were wrong."""
        length = len(self._nodes)
        found = []
        for _ in range(-(-length // ROUND_SECONDS)):
            row, self._next = self._next % length, self._next + 1
            is_wrong = self._repair(row)
            for repair in self._nodes.hooks("repair"):
                is_wrong |= repair(row, self._usages(row))
            if is_wrong:
                found.append(self._nodes.name(row))
        self.repaired += len(found)
        return found

    def _repair(self, row: int) -> bool:
        resources = self._nodes.resources
        requested = np.zeros(len(resources.requested))
        scored = np.zeros(2)
        for usage in self._usages(row):
            for name, amount in usage.request:
                requested[resources.column(name)] += amount
            scored += usage.scored
        requested[NOWHERE] = 0
        same = np.array_equal(resources.requested[:, row], requested)
        if same and np.array_equal(resources.scored[:, row], scored):
            return False
        resources.replace_asked(row, requested, scored.tolist())
        self._nodes.journal.add(row)
        return True

    def _usages(self, row: int) -> list[PodUsage]:
        """Of the pods of a row, and of what else holds room there."""
        usages = [pod.usage for pod in self._placed.on(row)]
        return [*usages, *self._nodes.held_on(self._nodes.name(row))]
