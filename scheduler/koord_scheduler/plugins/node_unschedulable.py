"""NodeUnschedulable: cordoned nodes take pods that tolerate it. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from koord_scheduler.objects.node import UNSCHEDULABLE
from koord_scheduler.objects.tolerations import tolerates
from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass


class NodeUnschedulable(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "NodeUnschedulable"
    helped_by: ClassVar[str] = "nodes that are uncordoned"
    reads_labels: ClassVar[bool] = False
    reason: ClassVar[str] = "node(s) were unschedulable"
    resolvable: ClassVar[bool] = False

    def sign(self, pod: PodClass) -> Hashable:
        return pod.tolerations

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if any(tolerates(toleration, UNSCHEDULABLE) for toleration in pod.tolerations):
            return None

        def can_run(rows: Rows) -> Mask:
            found: Mask = ~nodes.unschedulable[rows]
            return found

        return can_run
