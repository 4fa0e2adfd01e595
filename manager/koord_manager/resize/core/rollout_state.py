"""State of a workload's rollout, as ``kubectl rollout status`` computes it. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from koord_kube.protocol.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from koord_model.json_objects import inside

KINDS: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in (
        *(DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS),
        *(REPLICA_SETS, REPLICATION_CONTROLLERS),
    )
}
"""Workloads whose rollouts are known."""
WITHOUT_ROLLOUTS = frozenset({"Job", "CronJob", "Node"})
"""Owners that replace no pods."""


class _Progress(NamedTuple):
    """Numbers of pods."""

    desired: int
    updated: int
    available: int
    of_before: int = 0


def rollout(kind: str, document: dict[str, Any]) -> str:
    """Reason why a workload of one of ``KINDS`` is not settled, in a line; "" if it is."""
    seen = _number(document, "status", "observedGeneration")
    if seen < _number(document, "metadata", "generation"):
        return "its controller has not seen its newest specification"
    desired, updated, available, of_before = _progress(kind, document)
    if updated < desired:
        return f"{updated} of {desired} pods are updated"
    if of_before > 0:
        return f"{of_before} pods of before are still there"
    return f"{available} of {desired} pods are available" if available < desired else ""


def _progress(kind: str, document: dict[str, Any]) -> _Progress:
    def status(name: str) -> int:
        return _number(document, "status", name)

    desired = _number(document, "spec", "replicas", 1)
    if kind == DAEMON_SETS.kind:
        desired = status("desiredNumberScheduled")
        return _Progress(desired, status("updatedNumberScheduled"), status("numberAvailable"))
    if kind == DEPLOYMENTS.kind:
        updated, available = status("updatedReplicas"), status("availableReplicas")
        return _Progress(desired, updated, available, status("replicas") - updated)
    if kind == STATEFUL_SETS.kind:
        found = inside(document, "status")
        is_whole = found.get("currentRevision") == found.get("updateRevision")
        # With a partition too: those beyond it try a new version out.
        updated = desired if is_whole else min(status("updatedReplicas"), desired - 1)
        return _Progress(desired, updated, status("readyReplicas"))
    return _Progress(desired, desired, status("availableReplicas"))


def _number(document: dict[str, Any], part: str, name: str, default: int = 0) -> int:
    value = inside(document, part).get(name, default)
    return value if isinstance(value, int) else default
