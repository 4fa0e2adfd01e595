"""Requests of nodes' pods as columns. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_node import ObservedNode
from koord_descheduler.planner.cluster import KnownPod

Parts = npt.NDArray[np.float64]
"""By node and resource."""


class RequestTable:
    """Parts of what nodes have that their pods request, with the moves of a round.

    ``has`` is by node and resource: false where a node has nothing of it.
    """

    def __init__(
        self,
        cluster: ProfileRound,
        nodes: Mapping[str, ObservedNode],
        resources: Sequence[str],
    ) -> None:
        self._state = cluster.cluster.scheduler.nodes
        self._resources = resources
        self.names = list(nodes)
        self.rows = cluster.virtual.rows_of(self.names)
        self._columns = [self._state.resources.column(name) for name in resources]
        allocatable = self._of_rows(self._state.resources.allocatable)
        self.has = allocatable > 0
        self._scale = np.divide(1.0, allocatable, out=np.zeros_like(allocatable), where=self.has)

    def _of_rows(self, amounts: Parts) -> Parts:
        found: Parts = amounts[self._columns][:, self.rows].T
        return found

    def parts(self) -> Parts:
        """The parts of all nodes as they are now."""
        found: Parts = self._of_rows(self._state.resources.requested) * self._scale
        return found

    def parts_of(self, pod: KnownPod) -> Parts:
        """The parts that a pod would take of each node."""
        requests = dict(pod.placed.usage.request)
        amounts = np.array([requests.get(name, 0.0) for name in self._resources])
        found: Parts = amounts * self._scale
        return found
