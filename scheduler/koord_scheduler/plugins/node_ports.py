"""NodePorts: a port of a node is one pod's. No IO."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from koord_scheduler.plugin import Filter, Limit, Plugin, RowFilter
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage


class NodePorts(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "NodePorts"
    helped_by: ClassVar[str] = "pods that end and free its host ports"
    reads_labels: ClassVar[bool] = False
    reason: ClassVar[str] = "node(s) didn't have free ports for the requested pod ports"

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.ports:
            return None

        def can_run(rows: Rows) -> Mask:
            taken = {row for port in pod.ports for row in nodes.ports.in_conflict(port)}
            return ~np.isin(rows, list(taken))

        return can_run

    def filter_row(self, pod: PodClass, nodes: ClusterState) -> RowFilter | None:
        return lambda row: not any(row in nodes.ports.in_conflict(port) for port in pod.ports)

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        taken = np.zeros(len(nodes))
        for port in pod.ports:
            for row, number in nodes.ports.in_conflict(port).items():
                taken[row] += number

        def conflicts(usage: PodUsage) -> float:
            pairs = itertools.product(pod.ports, usage.ports)
            return sum(wanted.is_in_conflict(port) for wanted, port in pairs)

        return [Limit(conflicts, -taken[rows])]
