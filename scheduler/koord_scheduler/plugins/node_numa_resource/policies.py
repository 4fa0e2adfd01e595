"""The words of Koordinator's CPU and NUMA policies. No IO."""

from __future__ import annotations

from enum import StrEnum


class CPUBindPolicy(StrEnum):
    """Placement of a pod's own CPUs on cores: whole cores, or one thread of each.

    ``CONSTRAINED_BURST`` gives a pod no CPUs of its own; nor does ``NONE``.
    """

    NONE = ""
    DEFAULT = "Default"
    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"
    CONSTRAINED_BURST = "ConstrainedBurst"


class CPUExclusivePolicy(StrEnum):
    """Unit that pods with this word share with none of their kind: a core, or a NUMA node."""

    UNSET = ""
    NONE = "None"
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


class NUMAAllocateStrategy(StrEnum):
    """Order of NUMA nodes: first those with few CPUs left, or with many.

    Koordinator treats ``DISTRIBUTE_EVENLY`` as ``LEAST_ALLOCATED``.
    """

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    DISTRIBUTE_EVENLY = "DistributeEvenly"


class NUMATopologyPolicy(StrEnum):
    """Strictness with which a pod's resources have to come from the same NUMA nodes."""

    NONE = ""
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"


class NUMAExclusive(StrEnum):
    """Separation of pods on one NUMA node and pods on several."""

    UNSET = ""
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class NUMANodeStatus(StrEnum):
    """Use of a NUMA node's CPUs: by nobody, by pods with no others, or by pods with others."""

    IDLE = "idle"
    SINGLE = "single"
    SHARED = "shared"
