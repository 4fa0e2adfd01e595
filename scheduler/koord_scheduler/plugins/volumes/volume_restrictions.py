"""VolumeRestrictions: disks and claims that pods cannot share. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from koord_scheduler.plugin import (
    Dependence,
    Filter,
    Plugin,
    PreFilterResult,
    Reason,
    filter_by_reasons,
)
from koord_scheduler.plugins.volumes.columns import VolumeColumns, claim_stamps
from koord_scheduler.plugins.volumes.objects import PersistentVolumeClaim
from koord_scheduler.plugins.volumes.pod_claims import not_found
from koord_scheduler.plugins.volumes.usage import VOLUMES
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

DISK_CONFLICT = "node(s) had no available disk"
CLAIM_CONFLICT = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_ONE_POD = "ReadWriteOncePod"


class VolumeRestrictions(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "VolumeRestrictions"
    helped_by: ClassVar[str] = "pods that end and use its volumes"
    helped_by_nodes: ClassVar[str] = "the claims that it needs"
    reads_labels: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(VolumeColumns)

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        objects = nodes.use(VolumeColumns).objects
        for used in pod.of(VOLUMES).claims:
            if not used.pod and objects.get(PersistentVolumeClaim, used.key) is None:
                return PreFilterResult(not_found(used))
        return PreFilterResult()

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.of(VOLUMES).claims and not pod.of(VOLUMES).disks:
            return None

        return filter_by_reasons(self, pod, nodes)

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        rejection = self.pre_filter(pod, nodes).rejection
        if rejection:
            return [Reason(rejection, np.ones(len(rows), np.bool_), resolvable=False)]
        taken = {
            row
            for disk in pod.of(VOLUMES).disks
            for row in nodes.use(VolumeColumns).rows_in_conflict(disk)
        }
        conflict: Mask = np.isin(rows, list(taken))
        in_use = any(_is_in_use(claim, nodes) for claim in _exclusive_claims(pod, nodes))
        return [
            Reason(DISK_CONFLICT, conflict),
            Reason(CLAIM_CONFLICT, ~conflict if in_use else np.zeros(len(rows), np.bool_)),
        ]

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        stamps = claim_stamps(pod, nodes)
        if stamps is None:
            return None
        return lambda: (
            stamps(),
            tuple(_is_in_use(claim, nodes) for claim in _exclusive_claims(pod, nodes)),
        )


def _exclusive_claims(pod: PodClass, nodes: ClusterState) -> Iterable[str]:
    """The claims that are for one pod alone."""
    for used in pod.of(VOLUMES).claims:
        claim = nodes.use(VolumeColumns).objects.get(PersistentVolumeClaim, used.key)
        if not used.pod and claim and _ONE_POD in (claim.spec.access_modes or ()):
            yield used.key


def _is_in_use(claim: str, nodes: ClusterState) -> bool:
    return any(nodes.is_node[row] for row in nodes.use(VolumeColumns).rows_using(claim))
