"""The contract between gangs and planners of where they are tried. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.gangs.gangs import Gang
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_usage import PodUsage


class GangCandidate(NamedTuple):
    """A part of the cluster that a gang may be tried in.

    Its pods get the best nodes among ``rows`` (``None``: among all), a pod that ``plan`` names by
    its key the nodes of that row, or of those, alone. Nobody gets one of ``refused``.
    """

    rows: Rows | None = None
    plan: Mapping[str, int | Rows] = {}
    refused: tuple[int, ...] = ()

    def among(self, pod: str, rows: Rows) -> Rows:
        """Those of ``rows`` that the pod with this key may have."""
        allowed = self.allowed(pod)
        found = rows if allowed is None else rows[np.isin(rows, allowed)]
        return found[~np.isin(found, self.refused)] if self.refused else found

    def allowed(self, pod: str) -> Rows | None:
        """The rows that the pod with this key may have; ``None``: all."""
        planned = self.plan.get(pod)
        return self.rows if planned is None else np.atleast_1d(planned)


EVERYWHERE = GangCandidate()


class GangRequest(NamedTuple):
    """A gang group whose turn it is: its ``gangs``, and its waiting ``pods`` in their order.

    ``required`` are as many of the pods as have to start together.
    ``feasible`` returns the rows where a pod fits now, ``slots`` how many pods like it fit on each
    of these by their amounts.
    """

    gangs: Sequence[Gang]
    pods: Sequence[QueuedPod]
    required: Sequence[QueuedPod]
    nodes: ClusterState
    feasible: Callable[[QueuedPod], Rows]
    slots: Callable[[QueuedPod, Rows], Amounts]


class GangPlanner(Protocol):
    """Says where a gang group may be tried; the scheduler asks it once for each attempt."""

    def candidates(self, request: GangRequest) -> Iterable[GangCandidate] | str:
        """In this order until the gang fits; or why it may be tried nowhere, in a line."""
        ...

    def rows_to_free(self, request: GangRequest) -> Rows | None:
        """Return the rows where pods may leave for the required ones; ``None``: its candidates.

        Room is held there, too, until it is enough: anywhere if ``None``.
        """
        ...

    def domains(self, request: GangRequest) -> Sequence[Rows] | None:
        """Return parts of the cluster of which all pods have to be in one; ``None``: anywhere."""
        ...


def pod_slots(nodes: ClusterState, usage: PodUsage, rows: Rows) -> Amounts:
    """Return the number of pods of a usage that fit on each feasible row by amounts, at least 1."""
    slots: Amounts = np.full(len(rows), np.inf)
    resources = nodes.resources
    for name, amount in usage.request:
        column = resources.column(name)
        has = resources.allocatable[column, rows]
        free = has - resources.requested[column, rows]
        # What a node has nothing of at all is for others to see to: extenders, claims.
        np.minimum(slots, np.where(has > 0, np.floor(free / amount), np.inf), out=slots)
    return np.maximum(slots, 1.0)
