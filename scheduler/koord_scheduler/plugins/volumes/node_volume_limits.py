"""NodeVolumeLimits: how many volumes of a CSI driver a node can have attached. No IO."""

from __future__ import annotations

from collections import defaultdict
from typing import ClassVar

import numpy as np

from koord_scheduler.plugin import Dependence, Filter, Plugin, Reason, filter_by_reasons
from koord_scheduler.plugins.volumes.columns import VolumeColumns, claim_stamps
from koord_scheduler.plugins.volumes.csi_migration import CSIVolume
from koord_scheduler.plugins.volumes.objects import PersistentVolumeClaim
from koord_scheduler.plugins.volumes.pod_claims import is_for_pod, not_found, not_owned
from koord_scheduler.plugins.volumes.usage import VOLUMES
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

TOO_MANY = "node(s) exceed max volume count"


class NodeVolumeLimits(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "NodeVolumeLimits"
    helped_by: ClassVar[str] = (
        "pods that end whose volumes are attached, or a higher limit of volumes"
    )
    helped_by_nodes: ClassVar[str] = "a higher limit of volumes, or other nodes"
    reads_labels: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(VolumeColumns)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.of(VOLUMES).claims and not pod.of(VOLUMES).attached:
            return None

        return filter_by_reasons(self, pod, nodes)

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        missing = _missing_claim(pod, nodes)
        if missing:
            return [Reason(missing, np.ones(len(rows), np.bool_), resolvable=False)]
        too_many = np.zeros(len(rows), np.bool_)
        for driver, volumes in _volumes_by_driver(pod, nodes).items():
            too_many |= _exceeds(driver, volumes, nodes, rows)
        return [Reason(TOO_MANY, too_many)]

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        return claim_stamps(pod, nodes)


def _missing_claim(pod: PodClass, nodes: ClusterState) -> str:
    """The first claim that is not there or is not the pod's, in Kubernetes' words; "": none."""
    for used in pod.of(VOLUMES).claims:
        claim = nodes.use(VolumeColumns).objects.get(PersistentVolumeClaim, used.key)
        if claim is None:
            return f"looking up PVC {used.key}: {not_found(used)}"
        if not is_for_pod(used, claim):
            return not_owned(used)
    return ""


def _volumes_by_driver(pod: PodClass, nodes: ClusterState) -> dict[str, set[CSIVolume]]:
    """Return the volumes that a pod needs attached, by driver."""
    found: dict[str, set[CSIVolume]] = defaultdict(set)
    of_claims = (
        nodes.use(VolumeColumns).objects.attached_by(claim.key) for claim in pod.of(VOLUMES).claims
    )
    for volume in (*pod.of(VOLUMES).attached, *of_claims):
        if volume is not None:
            found[volume.driver].add(volume)
    return found


def _exceeds(driver: str, volumes: set[CSIVolume], nodes: ClusterState, rows: Rows) -> Mask:
    columns = nodes.use(VolumeColumns)
    limits = columns.limits.get(driver)
    if limits is None:
        return np.zeros(len(rows), np.bool_)
    more = np.full(len(rows), float(len(volumes)))
    for volume in volumes:
        more -= np.isin(rows, columns.rows_with(volume))
    attached = columns.attached.get(driver)
    total = more if attached is None else more + attached[rows]
    found: Mask = (more > 0) & (total > limits[rows])
    return found
