"""The kinds of objects that pods are placed by, and where each goes. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from koord_kube.protocol.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)

from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.disruption_budget import read_disruption_budget
from koord_scheduler.objects.metadata import read_metadata
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.workload import (
    read_replica_set,
    read_replication_controller,
    read_service,
    read_stateful_set,
)
from koord_scheduler.volumes.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
    read_storage_object,
)

_WORKLOADS = {
    SERVICES: read_service,
    REPLICATION_CONTROLLERS: read_replication_controller,
    REPLICA_SETS: read_replica_set,
    STATEFUL_SETS: read_stateful_set,
}
_STORAGE: Mapping[Resource, type[StorageObject]] = {
    VOLUMES: PersistentVolume,
    VOLUME_CLAIMS: PersistentVolumeClaim,
    STORAGE_CLASSES: StorageClass,
    CSI_NODES: CSINode,
    CSI_DRIVERS: CSIDriver,
    CSI_STORAGE_CAPACITIES: CSIStorageCapacity,
    VOLUME_ATTACHMENTS: VolumeAttachment,
}


class ClusterKind(NamedTuple):
    """How objects of a kind are read, and what takes them: ``put`` and ``remove`` get their keys.

    ``read`` raises ValueErrors.
    """

    resource: Resource
    read: Callable[[bytes], Any]
    put: Callable[[str, Any], object]
    remove: Callable[[str], object]


def cluster_kinds(scheduler: Scheduler) -> list[ClusterKind]:
    """All kinds but pods."""
    nodes, budgets = scheduler.nodes, scheduler.budgets
    return [
        ClusterKind(NODES, read_node, lambda _, node: nodes.set(node), nodes.remove),
        ClusterKind(NAMESPACES, _namespace_labels, nodes.namespaces.set, nodes.namespaces.remove),
        ClusterKind(
            DISRUPTION_BUDGETS,
            read_disruption_budget,
            lambda _, budget: budgets.set(budget),
            budgets.remove,
        ),
        *(
            ClusterKind(
                resource,
                read,
                partial(nodes.workloads.set, resource.kind),
                partial(nodes.workloads.remove, resource.kind),
            )
            for resource, read in _WORKLOADS.items()
        ),
        *(
            ClusterKind(
                resource,
                partial(read_storage_object, kind),
                lambda _, one: nodes.volumes.set(one),
                partial(nodes.volumes.remove, kind),
            )
            for resource, kind in _STORAGE.items()
        ),
    ]


def _namespace_labels(raw: bytes) -> Mapping[str, str]:
    return read_metadata(raw).labels or {}
