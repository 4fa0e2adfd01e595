"""TaintToleration: taints keep off pods that do not tolerate them, or make a node worse. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.taints import Taints
from koord_scheduler.framework.plugin import Filter, Limit, Plugin, Score, normalized
from koord_scheduler.objects.tolerations import count_untolerated_preferences


class TaintToleration(Plugin):
    """Kubernetes' plugin of that name."""

    normalizes: ClassVar[bool] = True
    name: ClassVar[str] = "TaintToleration"

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            return nodes.tolerates(pod.tolerations, rows)

        return can_run

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit]:
        return ()

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        def untolerated(taints: Taints) -> float:
            return count_untolerated_preferences(taints, pod.tolerations)

        def score(rows: Rows) -> Amounts:
            return nodes.taints.values(untolerated, rows)

        return score

    def normalize(self, scores: Amounts) -> Amounts:
        return normalized(scores, reverse=True)
