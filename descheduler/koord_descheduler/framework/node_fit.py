"""The rule ``nodeFit`` of evictors: a pod stays if it fits on no other node. No IO."""

from __future__ import annotations

from koord_model.label_selector import LabelSelector

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import ObservedPod


def node_fit_obstacle(pod: ObservedPod, cluster: ProfileRound, nodes: LabelSelector) -> str:
    """Return why a pod that left its node stays, in a line; ``nodes`` are those that count."""
    if pod.has_ended:
        return ""
    state = cluster.cluster.scheduler.nodes
    for row in cluster.virtual.fitting(cluster.cluster.pods[pod.key]).tolist():
        node = cluster.cluster.nodes.get(state.name(row))
        if node is not None and node.name != pod.node and nodes.matches(node.labels):
            return ""
    return "it fits on no other node (nodeFit)"
