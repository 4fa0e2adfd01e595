"""What a pod that has a node takes there, in columns. No IO."""

from __future__ import annotations

from koord_model.device_allocated import (
    NO_DEVICES,
    PodDevices,
    read_pod_devices,
)

from koord_scheduler.classes.pod_class import host_ports
from koord_scheduler.objects.metadata import NO_ANNOTATIONS
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.pod_affinity import pod_affinity
from koord_scheduler.objects.requests import placed_requests
from koord_scheduler.plugins.load_aware.pod_load import NO_LOAD, PodLoad, pod_load
from koord_scheduler.plugins.node_numa_resource.node_allocation import NO_ALLOCATION, NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.pod_requirements import placed_allocation
from koord_scheduler.plugins.reservation.owners import pod_owners
from koord_scheduler.plugins.reservation.pod_needs import allocated_reservation
from koord_scheduler.plugins.reservation.pre_allocatable import pre_allocatable
from koord_scheduler.plugins.volumes.usage import volume_usage
from koord_scheduler.state.cluster_state import ClusterState, PodUsage
from koord_scheduler.state.held_terms import held_terms
from koord_scheduler.state.pod_labels import pod_labels


def placed_usage(pod: PodInfo, nodes: ClusterState, load: PodLoad | None = None) -> PodUsage:
    """What ``nodes.add_pod`` and ``nodes.remove_pod`` take for a pod that has a node.

    Its ``load`` may be known already.

    Raises:
        ValueError: a quantity or a selector is not one.
    """
    metadata = pod.metadata
    annotations = metadata.annotations
    is_leaving = metadata.deletion_timestamp is not None
    usage = nodes.usage(
        placed_requests(pod),
        host_ports(pod),
        pod_labels(metadata.namespace, metadata.labels, is_leaving=is_leaving),
        held_terms(pod_affinity(metadata.namespace, pod.spec.affinity)),
        volume_usage(pod),
        load or (pod_load(pod) if nodes.loads.is_used else NO_LOAD),
        numa_allocation(pod) if nodes.numa.is_used and pod.spec.node_name else NO_ALLOCATION,
        pod_devices(pod) if nodes.node_devices.is_used and pod.spec.node_name else NO_DEVICES,
    )
    if not nodes.reservations.is_used or not pod.spec.node_name:
        return usage
    given, labels = (annotations or NO_ANNOTATIONS).by_key(), metadata.labels or {}
    owners = pod_owners(metadata.owner_references or ())
    return usage._replace(
        reservation=allocated_reservation(given),
        pre_allocatable=pre_allocatable(nodes.reservations.pre_allocatable, given, labels, owners),
    )


def numa_allocation(pod: PodInfo) -> NUMAAllocation:
    """The CPUs and NUMA nodes of a pod with a node; none where the annotation cannot be used.

    koordlet says that it cannot.
    """
    annotations = pod.metadata.annotations
    if annotations is None:
        return NO_ALLOCATION
    try:
        return placed_allocation(annotations.by_key())
    except ValueError:
        return NO_ALLOCATION


def pod_devices(pod: PodInfo) -> PodDevices:
    """The devices of a pod with a node; none where the annotation cannot be used.

    koordlet says that it cannot.
    """
    annotations = pod.metadata.annotations
    if annotations is None or annotations.device_allocated is None:
        return NO_DEVICES
    try:
        return read_pod_devices(annotations.device_allocated)
    except ValueError:
        return NO_DEVICES
