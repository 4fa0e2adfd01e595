"""Filters' rejections of a node, with pods on it that are still to come. No IO."""

from __future__ import annotations

from collections.abc import Sequence

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.state.pod_usage import PodUsage


def rejected_beside(scores: ClassScores, row: int, pods: Sequence[PodUsage]) -> bool:
    """As ``ClassScores.rejects`` while ``pods`` are on the node; they leave in any case."""
    nodes, node = scores.nodes, scores.nodes.name(row)
    for usage in pods:
        nodes.add_pod(node, usage)
    try:
        return scores.rejects(row)
    finally:  # a plugin may fail
        for usage in pods:
            nodes.remove_pod(node, usage)
