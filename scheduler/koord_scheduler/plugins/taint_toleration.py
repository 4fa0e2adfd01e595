"""TaintToleration: taints keep off pods that do not tolerate them, or make a node worse. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from koord_scheduler.objects.node import Taint
from koord_scheduler.objects.tolerations import count_untolerated_preferences
from koord_scheduler.plugin import Filter, Plugin, Score, normalized
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.coded_sets import SetValues
from koord_scheduler.state.pod_class import PodClass


class TaintToleration(Plugin):
    """Kubernetes' plugin of that name."""

    normalizes: ClassVar[bool] = True
    name: ClassVar[str] = "TaintToleration"
    helped_by: ClassVar[str] = "taints that are removed, or nodes without them"
    reads_labels: ClassVar[bool] = False
    reason: ClassVar[str] = "node(s) had untolerated taint(s)"
    resolvable: ClassVar[bool] = False

    def sign(self, pod: PodClass) -> Hashable:
        return pod.tolerations

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        untolerated = nodes.untolerated(pod.tolerations)

        def can_run(rows: Rows) -> Mask:
            found: Mask = untolerated.of(rows) == 0
            return found

        return can_run

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        def untolerated(taints: tuple[Taint, ...]) -> float:
            return count_untolerated_preferences(taints, pod.tolerations)

        return SetValues(nodes.taints, untolerated).of

    def normalize(self, scores: Amounts) -> Amounts:
        return normalized(scores, reverse=True)
