"""Parts of pods about CPUs and NUMA nodes. No IO."""

from __future__ import annotations

from koord_model.keys import (
    ANNOTATION_AMPLIFICATION_RATIO,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
)

from koord_scheduler.objects.annotations import read_annotations, read_annotations_of_room
from koord_scheduler.plugins.node_numa_resource.node_allocation import NO_ALLOCATION, NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.pod_requirements import (
    NO_REQUIREMENTS,
    NUMARequirements,
)
from koord_scheduler.plugins.node_numa_resource.reserved_cpus import what_is_left
from koord_scheduler.state.pod_parts import PodPart

NUMA_NEEDS: PodPart[NUMARequirements] = PodPart("NUMA needs", NO_REQUIREMENTS, beyond_amounts=True)
NUMA_ALLOCATION: PodPart[NUMAAllocation] = PodPart("NUMA", NO_ALLOCATION, what_is_left)

read_annotations(ANNOTATION_AMPLIFICATION_RATIO)
read_annotations_of_room(
    asking=(ANNOTATION_RESOURCE_SPEC, ANNOTATION_NUMA_TOPOLOGY_SPEC),
    granted=(ANNOTATION_RESOURCE_STATUS,),
)
