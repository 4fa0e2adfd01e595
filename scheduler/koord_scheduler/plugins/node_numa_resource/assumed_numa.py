"""A pod's part of its node's CPUs and NUMA nodes, and its annotations. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_model.keys import ANNOTATION_RESOURCE_SPEC, ANNOTATION_RESOURCE_STATUS

from koord_scheduler.plugins.node_numa_resource.node_allocation import NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.pod_requirements import (
    NUMARequirements,
    completed_spec,
    resource_status,
)
from koord_scheduler.plugins.node_numa_resource.policies import CPUBindPolicy


class AssumedNUMA(NamedTuple):
    """An allocation, and the pod's ``annotations`` of it; one that is ``None`` is removed."""

    allocation: NUMAAllocation
    annotations: tuple[tuple[str, str | None], ...]


def numa_reservation(
    allocation: NUMAAllocation,
    says: NUMARequirements,
    used: CPUBindPolicy = CPUBindPolicy.NONE,
    *,
    is_required: bool = False,
) -> AssumedNUMA | None:
    """Return the annotations for an allocation; ``None``: nothing is written.

    ``used`` is the policy by which CPUs were bound, if any were. What was written for another node,
    which the pod did not get, is removed.
    """
    written: dict[str, str | None] = {}
    if allocation:
        written[ANNOTATION_RESOURCE_STATUS] = resource_status(allocation)
    elif says.has_status:
        written[ANNOTATION_RESOURCE_STATUS] = None
    spec = completed_spec(says.spec, used, is_required=is_required) if allocation.cpus else None
    if spec is not None:
        written[ANNOTATION_RESOURCE_SPEC] = spec
    return AssumedNUMA(allocation, tuple(written.items())) if written else None
