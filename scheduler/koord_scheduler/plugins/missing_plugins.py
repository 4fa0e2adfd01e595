"""MissingPlugins: pods that need a plugin which is not built wait, and say so. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.plugin import Filter, Plugin, PreFilterResult
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState


class MissingPlugins(Plugin):
    """Placed all the same, such a pod would not have what it asks for."""

    name: ClassVar[str] = "MissingPlugins"
    reads_labels: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        needs = ", ".join(pod.unsupported)
        return PreFilterResult(f"{needs}, which this scheduler lacks" if needs else "")

    def sign(self, pod: PodClass) -> Hashable:
        return pod.unsupported

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.unsupported:
            return None

        def can_run(rows: Rows) -> Mask:
            return np.zeros(len(rows), np.bool_)

        return can_run
