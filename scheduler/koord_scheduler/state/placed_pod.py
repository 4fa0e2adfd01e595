"""A placed pod's usage of its node, in columns. No IO."""

from __future__ import annotations

from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.pod_affinity import pod_affinity
from koord_scheduler.objects.requests import placed_requests
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.held_terms import held_terms
from koord_scheduler.state.pod_class import host_ports
from koord_scheduler.state.pod_labels import pod_labels
from koord_scheduler.state.pod_parts import NO_PARTS, PodParts
from koord_scheduler.state.pod_usage import PodUsage


def placed_usage(pod: PodInfo, nodes: ClusterState, known: PodParts = NO_PARTS) -> PodUsage:
    """Return a pod's usage for ``nodes.add_pod``; ``known`` are parts of its class.

    Raises:
        ValueError: a quantity or a selector is not one.
    """
    metadata = pod.metadata
    is_leaving = metadata.deletion_timestamp is not None
    return nodes.usage(
        placed_requests(pod),
        host_ports(pod),
        pod_labels(metadata.namespace, metadata.labels, is_leaving=is_leaving),
        held_terms(pod_affinity(metadata.namespace, pod.spec.affinity)),
        usage_parts(pod, nodes, known),
    )


def usage_parts(pod: PodInfo, nodes: ClusterState, known: PodParts = NO_PARTS) -> PodParts:
    """Features' parts of what a pod takes."""
    features = nodes.features.values()
    return PodParts(part for feature in features for part in feature.usage_parts(pod, known))
