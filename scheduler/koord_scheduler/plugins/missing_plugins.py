"""MissingPlugins: pods that need a plugin which is not built wait, and say so. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.objects.pod import PodInfo, SchedulingSpec
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugin import Filter, Plugin, PreFilterResult
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_parts import PodPart

_UNSUPPORTED: PodPart[tuple[str, ...]] = PodPart("unsupported fields", ())


class UnsupportedFields(FeatureState):
    """Fields of pods that no enabled plugin understands."""

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield _UNSUPPORTED, unsupported_fields(pod.spec, has_groups=_reads_groups(self._nodes))


class MissingPlugins(Plugin):
    """Placed all the same, such a pod would not have what it asks for."""

    name: ClassVar[str] = "MissingPlugins"
    helped_by: ClassVar[str] = "a scheduler that has the plugins which it needs"
    reads_labels: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(UnsupportedFields)

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        needs = ", ".join(pod.of(_UNSUPPORTED))
        return PreFilterResult(f"{needs}, which this scheduler lacks" if needs else "")

    def sign(self, pod: PodClass) -> Hashable:
        return pod.of(_UNSUPPORTED)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.of(_UNSUPPORTED):
            return None

        def can_run(rows: Rows) -> Mask:
            return np.zeros(len(rows), np.bool_)

        return can_run


def unsupported_fields(spec: SchedulingSpec, *, has_groups: bool = False) -> tuple[str, ...]:
    """Return the fields that would be ignored in a pod's placement, with the plugins for them.

    An API server drops fields of which the feature is off (GenericWorkload). The second one is
    that of Kubernetes 1.35. ``has_groups``: the first one is understood.
    """
    group = None if has_groups else spec.scheduling_group
    groups = {"schedulingGroup": group, "workloadRef": spec.workload_ref}
    return tuple(
        f"spec.{name} needs the plugin GangScheduling" for name, one in groups.items() if one
    )


def _reads_groups(nodes: ClusterState) -> bool:
    gangs = nodes.find(Gangs)
    return gangs is not None and gangs.reads_scheduling_groups
