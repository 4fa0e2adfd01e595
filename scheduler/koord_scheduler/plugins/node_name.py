"""NodeName: a pod that names its node runs there or nowhere. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass


class NodeName(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "NodeName"
    helped_by: ClassVar[str] = "a node of the name that it asks for"
    reads_labels: ClassVar[bool] = False
    reason: ClassVar[str] = "node(s) didn't match the requested node name"
    resolvable: ClassVar[bool] = False

    def sign(self, pod: PodClass) -> Hashable:
        return pod.node_name

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.node_name:
            return None

        def can_run(rows: Rows) -> Mask:
            # Looked up each time: the node may come later.
            row = nodes.row(pod.node_name)
            found: Mask = rows == (-1 if row is None else row)
            return found

        return can_run
