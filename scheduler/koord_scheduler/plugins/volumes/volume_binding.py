"""VolumeBinding: nodes that can use a pod's volumes, and volumes for its other claims. No IO.

Scores by capacity belong to the feature gate StorageCapacityScoring, which is off in
Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from koord_scheduler.extension_points.api_services import ApiServices, PreBinding
from koord_scheduler.plugin import (
    Dependence,
    Filter,
    Plugin,
    PreFilterResult,
    Reason,
    filter_by_reasons,
)
from koord_scheduler.plugins.volumes.binder import VolumeBinder
from koord_scheduler.plugins.volumes.binding import (
    AssumedVolumes,
    reserve_volumes,
    unreserve_volumes,
)
from koord_scheduler.plugins.volumes.columns import VolumeColumns, claim_stamps
from koord_scheduler.plugins.volumes.csi_migration import in_tree_plugin, volume_source
from koord_scheduler.plugins.volumes.node_access import volume_topology
from koord_scheduler.plugins.volumes.objects import PersistentVolume, PersistentVolumeClaim
from koord_scheduler.plugins.volumes.pod_claims import pod_volume_claims, unusable_claim
from koord_scheduler.plugins.volumes.pod_volumes import DelayedClaims
from koord_scheduler.plugins.volumes.topology import Topology
from koord_scheduler.plugins.volumes.usage import VOLUMES
from koord_scheduler.state.arrays import Codes, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_NOT_FOUND = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOT_TRANSLATED = "could not translate pv"


class VolumeBinding(Plugin):
    """Kubernetes' plugin of that name."""

    name: ClassVar[str] = "VolumeBinding"
    helped_by: ClassVar[str] = "volumes that can be bound, or nodes that reach those it has"
    reads_labels: ClassVar[bool] = False

    def __init__(self, bind_timeout: float = 600.0) -> None:
        """``bind_timeout``: seconds for the claims of a pod to be bound."""
        self._bind_timeout = bind_timeout

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(VolumeColumns)

    def pre_binding(self, nodes: ClusterState, api: ApiServices) -> PreBinding:
        return VolumeBinder(api.bind_write, nodes, self._bind_timeout)

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        return PreFilterResult(
            unusable_claim(pod.of(VOLUMES).claims, nodes.use(VolumeColumns).objects)
        )

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.of(VOLUMES).claims:
            return None

        return filter_by_reasons(self, pod, nodes)

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        rejection = self.pre_filter(pod, nodes).rejection
        claims = pod_volume_claims(pod.of(VOLUMES).claims, nodes.use(VolumeColumns).objects)
        if rejection or claims is None:
            return [Reason(rejection, np.ones(len(rows), np.bool_), resolvable=False)]
        found = {**_bound_conflicts(claims.bound, nodes, rows)}
        if claims.delayed:
            found |= _delayed_conflicts(claims.delayed, nodes, rows)
        return [Reason(text, mask, resolvable=False) for text, mask in found.items()]

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> AssumedVolumes | None:
        if not pod.of(VOLUMES).claims:
            return None
        claims = pod_volume_claims(pod.of(VOLUMES).claims, nodes.use(VolumeColumns).objects)
        delayed = () if claims is None else claims.delayed
        name, objects = nodes.name(row), nodes.use(VolumeColumns).objects
        found = DelayedClaims(delayed, objects).find(name, nodes.labels.of(row))
        return reserve_volumes(found, name, objects)

    def unreserve(self, reservation: AssumedVolumes, nodes: ClusterState) -> None:
        unreserve_volumes(reservation, nodes.use(VolumeColumns).objects)

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        return claim_stamps(pod, nodes)


def _bound_conflicts(
    claims: Iterable[PersistentVolumeClaim], nodes: ClusterState, rows: Rows
) -> Mapping[str, Mask]:
    """Mask the rows where claims' volumes cannot be used; the first conflict gives the reason."""
    found = {
        text: np.zeros(len(rows), np.bool_)
        for text in (NODE_CONFLICT, NOT_TRANSLATED, VOLUME_NOT_FOUND)
    }
    undecided = np.ones(len(rows), np.bool_)
    for claim in claims:
        volume = nodes.use(VolumeColumns).objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            found[VOLUME_NOT_FOUND] |= undecided
            break
        conflict = ~_matches(volume_topology(volume), nodes, rows)
        plugin = in_tree_plugin(volume.spec)
        if plugin is not None:
            column = nodes.use(VolumeColumns).migrated.get(plugin)
            migrated = np.zeros(len(rows), np.bool_) if column is None else column[rows]
            if volume_source(volume) is None:
                found[NOT_TRANSLATED] |= undecided & migrated
                undecided &= ~migrated
            through_csi = ~_matches(volume_topology(volume, frozenset({plugin})), nodes, rows)
            conflict = np.where(migrated, through_csi, conflict)
        found[NODE_CONFLICT] |= undecided & conflict
        undecided &= ~conflict
    return found


def _matches(topology: Topology | None, nodes: ClusterState, rows: Rows) -> Mask:
    if topology is None:
        return np.ones(len(rows), np.bool_)
    found = np.zeros(len(rows), np.bool_)
    for term in topology:
        found |= nodes.labels.matches(term, rows)
    return found


def _delayed_conflicts(
    claims: Sequence[PersistentVolumeClaim], nodes: ClusterState, rows: Rows
) -> Mapping[str, Mask]:
    """Mask the rows where claims have no volume, and none can be provisioned.

    Nodes with the same values of the labels that matter are decided about once.
    """
    delayed = DelayedClaims(claims, nodes.use(VolumeColumns).objects)
    codes = [nodes.labels.column(key).codes[rows] for key in delayed.label_keys]
    selected = [nodes.row(name) for name in delayed.selected_nodes]
    codes.append(np.isin(rows, [row for row in selected if row is not None]).astype(np.intp))
    _, first, group = np.unique(_combined(codes), return_index=True, return_inverse=True)
    texts = [
        delayed.find(nodes.name(row), nodes.labels.of(row)).conflict for row in rows[first].tolist()
    ]
    of_rows = np.array(texts, object)[group]
    return {text: of_rows == text for text in set(texts) - {""}}


def _combined(codes: Sequence[Codes]) -> Codes:
    """One code for each combination of codes."""
    found: Codes = np.zeros(len(codes[0]), np.intp)
    for code in codes:
        shifted = code + 1
        found = found * (int(shifted.max(initial=0)) + 1) + shifted
        found = np.unique(found, return_inverse=True)[1]
    return found
