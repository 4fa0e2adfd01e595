"""Explanation of a profile for people: what is in it, and where it has an effect. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from koord_manager.service_profiles.core.baseline import baseline
from koord_manager.service_profiles.core.document import ProfileDocument
from koord_manager.service_profiles.core.objects import ServicePod

Explanation = dict[str, Any]


def explain(document: ProfileDocument, reason: str, pods: Collection[ServicePod]) -> Explanation:
    """Describe a profile; ``reason`` is why it has no effect, "" if it has on its ``pods``."""
    return {
        "source": document.source.value,
        "workload": f"{document.kind.kind} {document.workload}".strip(),
        "in_force": not reason,
        "reason": reason,
        "targets": {word.value: value for word, value in document.targets.items()},
        "memory_offload": document.memory_offload,
        "baseline_percent": document.baseline_percent,
        "memory_percent": document.memory_percent,
        "ignored": [*document.refused, *document.unused],
        "nodes": _counts(pods),
        "baseline": sorted(baseline(pods, document.baseline_percent)),
        "memory_baseline": sorted(baseline(pods, document.memory_percent)),
    }


def _counts(pods: Iterable[ServicePod]) -> dict[str, int]:
    """Count the pods on each node; those without one are under ""."""
    found: dict[str, int] = {}
    for pod in sorted(pods, key=lambda pod: pod.node):
        found[pod.node] = found.get(pod.node, 0) + 1
    return found
