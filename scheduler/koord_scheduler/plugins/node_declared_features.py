"""NodeDeclaredFeatures: a node has the features that a pod needs of its kubelet. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.coded_sets import SetValues


class NodeDeclaredFeatures(Plugin):
    """Kubernetes' plugin of that name; nodes say what they have in ``status.declaredFeatures``."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    reads_labels: ClassVar[bool] = False
    reason: ClassVar[str] = "node(s) didn't match Pod's required features"
    resolvable: ClassVar[bool] = False

    def sign(self, pod: PodClass) -> Hashable:
        return pod.features

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.features:
            return None
        needed = set(pod.features)
        lacking = SetValues(nodes.features, lambda declared: len(needed - set(declared)))

        def can_run(rows: Rows) -> Mask:
            found: Mask = lacking.of(rows) == 0
            return found

        return can_run
