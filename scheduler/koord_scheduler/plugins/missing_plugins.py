"""MissingPlugins: pods that need a plugin which is not built wait, and say so. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.plugin import Filter, Plugin, PreFilterResult


class MissingPlugins(Plugin):
    """Placed all the same, such a pod would not have what it asks for.

    ``missing`` are the names of plugins that a profile enables, and that are not there.
    """

    name: ClassVar[str] = "MissingPlugins"
    resolvable: ClassVar[bool] = False

    def __init__(self, missing: frozenset[str]) -> None:
        self._missing = missing

    def pre_filter(self, pod: PodClass, nodes: NodeColumns) -> PreFilterResult:
        names = ", ".join(self._needed(pod))
        return PreFilterResult(f"pod needs {names}, which this scheduler lacks" if names else "")

    def sign(self, pod: PodClass) -> Hashable:
        return pod.needed_plugins

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        if not self._needed(pod):
            return None

        def can_run(rows: Rows) -> Mask:
            return np.zeros(len(rows), np.bool_)

        return can_run

    def _needed(self, pod: PodClass) -> list[str]:
        return [name for name in pod.needed_plugins if name in self._missing]
