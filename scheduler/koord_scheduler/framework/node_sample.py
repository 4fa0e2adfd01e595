"""Sample of nodes for a new class of pods in a large cluster. No IO."""

from __future__ import annotations

import numpy as np

from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState

LARGE = 5000
"""Nodes; in clusters that have no more, all are looked at, in a few tenths of a millisecond."""
FEWEST = 100
"""Kubernetes': a pod has at least so many nodes to choose from, if there are so many."""
_LEAST_PER_CENT = 5


def sample_size(nodes: int, per_cent: int = 0) -> int:
    """Return how many of ``nodes`` are enough, as in ``percentageOfNodesToScore``.

    0 per cent stands for fewer, the more nodes there are: 46 % of 500, 10 % of 5,000.
    """
    chosen = per_cent or max(_LEAST_PER_CENT, 50 - nodes // 125)
    return min(nodes, max(FEWEST, nodes * chosen // 100))


class NodeSampler:
    """Takes nodes in a random order, the next ones each time."""

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes
        self._version = -1
        self._total = 0
        self._order: Rows | None = None
        self._next = 0

    def size(self, per_cent: int) -> int:
        """Return the number of nodes that are enough for a class; 0: all have to be tried."""
        nodes = self._nodes
        if self._version != nodes.version:
            self._version, self._order = nodes.version, None
            self._total = int(np.count_nonzero(nodes.is_node))
        if self._total <= LARGE:
            return 0
        number = sample_size(self._total, per_cent)
        return number if number < self._total else 0

    def take(self, number: int) -> Rows:
        """The rows of the next nodes, after ``size``."""
        if self._order is None:
            nodes = self._nodes
            rows = np.flatnonzero(nodes.is_node)
            self._order = rows[nodes.tie_break[rows].argsort()]
        total = len(self._order)
        places = np.arange(self._next, self._next + number) % total
        self._next = (self._next + number) % total
        return np.sort(self._order[places])
