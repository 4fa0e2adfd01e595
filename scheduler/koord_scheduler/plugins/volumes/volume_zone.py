"""VolumeZone: a pod runs in the zone that its volumes have as a label. No IO."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from koord_scheduler.objects.node_selector import NodeRequirement
from koord_scheduler.plugin import (
    Dependence,
    Filter,
    Plugin,
    PreFilterResult,
    Reason,
    filter_by_reasons,
)
from koord_scheduler.plugins.volumes.columns import VolumeColumns, claim_stamps
from koord_scheduler.plugins.volumes.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONES_DELIMITER,
)
from koord_scheduler.plugins.volumes.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord_scheduler.plugins.volumes.pod_claims import not_found
from koord_scheduler.plugins.volumes.usage import VOLUMES, UsedClaim
from koord_scheduler.plugins.volumes.volume_objects import VolumeObjects
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

ZONE_CONFLICT = "node(s) had no available volume zone"
_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""Labels of volumes, and those that nodes may have in their place."""


class VolumeZone(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "VolumeZone"
    helped_by: ClassVar[str] = "nodes in the zone of its volumes"
    reads_labels: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(VolumeColumns)

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        objects = nodes.use(VolumeColumns).objects
        for used in _claims(pod):
            rejection = _rejection(used, objects)
            if rejection:
                return PreFilterResult(rejection)
        return PreFilterResult()

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not _claims(pod):
            return None

        return filter_by_reasons(self, pod, nodes)

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        rejection = self.pre_filter(pod, nodes).rejection
        if rejection:
            return [Reason(rejection, np.ones(len(rows), np.bool_), resolvable=False)]
        conflict = np.zeros(len(rows), np.bool_)
        for required in _requirements(pod, nodes.use(VolumeColumns).objects):
            conflict |= ~_is_met(required, nodes, rows)
        has_zone = np.zeros(len(rows), np.bool_)
        for key in _LABELS:
            has_zone |= nodes.labels.column(key).codes[rows] >= 0
        return [Reason(ZONE_CONFLICT, conflict & has_zone, resolvable=False)]

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        return claim_stamps(pod, nodes)


def _claims(pod: PodClass) -> list[UsedClaim]:
    """Kubernetes does not look at ephemeral volumes here."""
    return [claim for claim in pod.of(VOLUMES).claims if not claim.pod]


def _rejection(used: UsedClaim, objects: VolumeObjects) -> str:
    claim = objects.get(PersistentVolumeClaim, used.key)
    if claim is None:
        return not_found(used)
    volume = claim.spec.volume_name
    if volume:
        known = objects.get(PersistentVolume, volume) is not None
        return "" if known else f'persistentvolume "{volume}" not found'
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = objects.get(StorageClass, claim.storage_class)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return "" if storage_class.is_delayed else "PersistentVolume had no name"


def _requirements(pod: PodClass, objects: VolumeObjects) -> list[NodeRequirement]:
    found = []
    for used in _claims(pod):
        claim = objects.get(PersistentVolumeClaim, used.key)
        volume = objects.get(PersistentVolume, claim.spec.volume_name) if claim else None
        labels = (volume.metadata.labels if volume else None) or {}
        for key in _LABELS.keys() & labels.keys():
            zones = [one.strip() for one in labels[key].split(ZONES_DELIMITER)]
            if all(zones):  # otherwise Kubernetes ignores the label
                found.append(NodeRequirement(key, "In", tuple(zones)))
    return found


def _is_met(required: NodeRequirement, nodes: ClusterState, rows: Rows) -> Mask:
    column = nodes.labels.column(required.key)
    found = column.matches(required, rows)
    instead = nodes.labels.column(_LABELS[required.key]).matches(required, rows)
    result: Mask = np.where(column.codes[rows] >= 0, found, instead)
    return result
