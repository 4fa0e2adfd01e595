"""NodePorts: a port of a node is one pod's. No IO."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.plugin import Filter, Plugin


class NodePorts(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "NodePorts"
    reason: ClassVar[str] = "node(s) didn't have free ports for the requested pod ports"

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        if not pod.ports:
            return None

        def can_run(rows: Rows) -> Mask:
            taken = {row for port in pod.ports for row in nodes.ports.rows_in_conflict(port)}
            return ~np.isin(rows, list(taken))

        return can_run
