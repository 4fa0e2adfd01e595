"""UnsupportedFields: pods that ask for what this scheduler cannot give wait, and say so. No IO."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.plugin import Filter, Plugin, PreFilterResult


class UnsupportedFields(Plugin):
    """Part of each profile: placed all the same, such a pod would not have what it asks for."""

    name: ClassVar[str] = "UnsupportedFields"
    resolvable: ClassVar[bool] = False

    def pre_filter(self, pod: PodClass, nodes: NodeColumns) -> PreFilterResult:
        fields = ", ".join(pod.unsupported)
        return PreFilterResult(f"this scheduler does not support {fields}" if fields else "")

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        if not pod.unsupported:
            return None

        def can_run(rows: Rows) -> Mask:
            return np.zeros(len(rows), np.bool_)

        return can_run
