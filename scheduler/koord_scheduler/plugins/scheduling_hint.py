"""SchedulingHint: pods go where their hint says, or there first. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.plugin import ANOTHER_POD, Filter, Plugin, PreFilterResult
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState


class SchedulingHint(Plugin):
    """Koordinator's plugin of that name; of the preferred nodes the first ``most`` are tried."""

    name: ClassVar[str] = "SchedulingHint"
    reads_labels: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False

    def __init__(self, most: int = 100) -> None:
        self._most = most

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        only, preferred, problem = pod.hint
        named = frozenset(only) if only else None
        cure = ANOTHER_POD if problem else ""
        return PreFilterResult(problem, nodes=named, preferred=preferred[: self._most], cure=cure)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.hint.nodes and not pod.hint.problem:
            return None

        def can_run(rows: Rows) -> Mask:
            named = (row for row in map(nodes.row, pod.hint.nodes) if row is not None)
            return np.isin(rows, list(named))

        return can_run

    def sign(self, pod: PodClass) -> Hashable:
        return pod.hint
