"""The kinds of objects that pods are placed by, and where each goes. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from koord_kube.protocol.resources import (
    CLUSTER_NETWORK_TOPOLOGIES,
    CONFIG_MAPS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DEVICE_CLASSES,
    DEVICES,
    DISRUPTION_BUDGETS,
    ELASTIC_QUOTAS,
    NAMESPACES,
    NODE_METRICS,
    NODE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESERVATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)

from koord_scheduler.classes.pod_reader import PodReader
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.disruption_budget import (
    DisruptionBudgetObject,
    read_disruption_budget,
)
from koord_scheduler.objects.metadata import AnyObject, read_metadata
from koord_scheduler.objects.node import Node, read_node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.workload import (
    EqualitySelectorObject,
    LabelSelectorObject,
    read_replica_set,
    read_replication_controller,
    read_service,
    read_stateful_set,
)
from koord_scheduler.plugins.coscheduling.network.cluster_topology import (
    ClusterTopology,
    read_cluster_topology,
)
from koord_scheduler.plugins.coscheduling.pod_group import PodGroupObject, read_pod_group
from koord_scheduler.plugins.coscheduling.scheduling_group_kinds import scheduling_group_kinds
from koord_scheduler.plugins.device_share.device_object import DeviceObject, read_device_report
from koord_scheduler.plugins.device_share.gpu_templates import (
    GPUTemplates,
    TemplatesObject,
    read_gpu_templates,
)
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    read_device_object,
)
from koord_scheduler.plugins.elastic_quota.quota_object import (
    ElasticQuotaObject,
    read_elastic_quota,
)
from koord_scheduler.plugins.load_aware.node_metric import NodeMetricView, read_node_metric
from koord_scheduler.plugins.node_numa_resource.topology_object import (
    NodeResourceTopology,
    read_node_resource_topology,
)
from koord_scheduler.plugins.reservation.objects import ReservationObject
from koord_scheduler.plugins.reservation.reservation_reader import ReservationReader
from koord_scheduler.plugins.volumes.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from koord_scheduler.plugins.volumes.volume_objects import read_valid_storage_object
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState

_WORKLOADS: Mapping[Resource, tuple[Callable[[bytes], Any], type[msgspec.Struct]]] = {
    SERVICES: (read_service, EqualitySelectorObject),
    REPLICATION_CONTROLLERS: (read_replication_controller, EqualitySelectorObject),
    REPLICA_SETS: (read_replica_set, LabelSelectorObject),
    STATEFUL_SETS: (read_stateful_set, LabelSelectorObject),
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


def cluster_kinds(
    scheduler: Scheduler, now: Callable[[], float] = lambda: 0.0
) -> list[ClusterKind]:
    """All kinds but pods; ``now`` is in monotonic seconds."""
    nodes, budgets = scheduler.nodes, scheduler.budgets
    return [
        ClusterKind(NODES, Node, read_node, lambda _, node: nodes.set(node), nodes.remove),
        ClusterKind(
            NAMESPACES,
            AnyObject,
            _namespace_labels,
            nodes.namespaces.set,
            nodes.namespaces.remove,
        ),
        ClusterKind(
            DISRUPTION_BUDGETS,
            DisruptionBudgetObject,
            read_disruption_budget,
            lambda _, budget: budgets.set(budget),
            budgets.remove,
        ),
        *(
            ClusterKind(
                resource,
                view,
                read,
                partial(nodes.workloads.set, resource.kind),
                partial(nodes.workloads.remove, resource.kind),
            )
            for resource, (read, view) in _WORKLOADS.items()
        ),
        *(
            ClusterKind(
                resource,
                kind,
                partial(read_valid_storage_object, kind),
                lambda _, one: nodes.volumes.set(one),
                partial(nodes.volumes.remove, kind),
                has_decisions=resource in (VOLUMES, VOLUME_CLAIMS),
            )
            for resource, kind in _STORAGE.items()
        ),
        *_device_kinds(nodes.devices),
        ClusterKind(
            NODE_METRICS,
            NodeMetricView,
            read_node_metric,
            nodes.loads.set_report,
            nodes.loads.remove_report,
            is_optional=True,
            is_needed=nodes.loads.is_used,
        ),
        ClusterKind(
            NODE_TOPOLOGIES,
            NodeResourceTopology,
            read_node_resource_topology,
            nodes.set_topology,
            lambda name: nodes.set_topology(name, None),
            is_optional=True,
            is_needed=nodes.numa.is_used,
        ),
        ClusterKind(
            DEVICES,
            DeviceObject,
            read_device_report,
            nodes.set_device_report,
            lambda name: nodes.set_device_report(name, None),
            is_optional=True,
            is_needed=nodes.node_devices.is_used,
        ),
        _gpu_templates(nodes),
        ClusterKind(
            ELASTIC_QUOTAS,
            ElasticQuotaObject,
            read_elastic_quota,
            nodes.quotas.set_quota,
            nodes.quotas.remove_quota,
            is_optional=True,
            is_needed=nodes.quotas.is_used,
        ),
        ClusterKind(
            RESERVATIONS,
            ReservationObject,
            ReservationReader(nodes).read,
            lambda _, one: scheduler.set_reservation(one, now()),
            scheduler.remove_reservation,
            is_optional=True,
            is_needed=nodes.reservations.is_used,
            has_decisions=True,
        ),
        *scheduling_group_kinds(scheduler),
        ClusterKind(
            POD_GROUPS,
            PodGroupObject,
            partial(read_pod_group, defaults=nodes.gangs.defaults),
            lambda _, one: scheduler.set_pod_group(one),
            scheduler.remove_pod_group,
            is_optional=True,
            is_needed=nodes.gangs.reads_pod_groups,
        ),
        ClusterKind(
            CLUSTER_NETWORK_TOPOLOGIES,
            ClusterTopology,
            read_cluster_topology,
            nodes.network.set,
            nodes.network.remove,
            is_optional=True,
            is_needed=nodes.network.is_used,
        ),
    ]


def _gpu_templates(nodes: ClusterState) -> ClusterKind:
    """The ConfigMap with parts in which cards are given."""
    source = nodes.node_devices.source
    return ClusterKind(
        CONFIG_MAPS,
        TemplatesObject,
        read_gpu_templates,
        lambda _, templates: nodes.set_gpu_templates(templates),
        lambda _: nodes.set_gpu_templates(GPUTemplates()),
        is_needed=nodes.node_devices.is_used,
        namespace=source.namespace,
        object_name=source.name,
    )


def _device_kinds(devices: DeviceObjects) -> list[ClusterKind]:
    """Those of dynamic resource allocation: Kubernetes 1.34 and later have them."""
    return [
        _device_kind(RESOURCE_CLAIMS, ResourceClaim, devices.set_claim, devices.remove_claim),
        _device_kind(RESOURCE_SLICES, ResourceSlice, devices.set_slice, devices.remove_slice),
        _device_kind(DEVICE_CLASSES, DeviceClass, devices.set_class, devices.remove_class),
    ]


def _device_kind(
    resource: Resource,
    view: type[msgspec.Struct],
    put: Callable[[str, Any], object],
    remove: Callable[[str], object],
) -> ClusterKind:
    read = partial(read_device_object, view)
    decides = resource == RESOURCE_CLAIMS
    return ClusterKind(resource, view, read, put, remove, True, has_decisions=decides)


def pod_kind(scheduler: Scheduler, now: Callable[[], float]) -> ClusterKind:
    """Pods; ``now`` is in monotonic seconds."""
    return ClusterKind(
        PODS,
        PodInfo,
        PodReader(scheduler.nodes).read,
        lambda _, pod: scheduler.set_pod(pod, now()),
        scheduler.remove_pod,
        has_decisions=True,
    )


def _namespace_labels(raw: bytes) -> Mapping[str, str]:
    return read_metadata(raw).labels or {}
