"""``resourceUsedThresholdWithBE`` of a NodeSLO: how full a node may get with batch pods on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SuppressPolicy(StrEnum):
    """How best-effort pods are held down: to certain CPUs, or to a quota on all of them."""

    CPUSET = "cpuset"
    CFS_QUOTA = "cfsQuota"


class CPUEvictPolicy(StrEnum):
    """What best-effort pods' CPU is compared with: what they may have, or what was sold."""

    REAL_LIMIT = "evictByRealLimit"
    ALLOCATABLE = "evictByAllocatable"


@dataclass(frozen=True, slots=True)
class UsedThreshold:
    """Thresholds in percent; ``None`` where the cluster sets none, which switches its use off.

    ``cpu_evict_be_usage`` is of what best-effort pods may have, ``*_allocatable_*`` of what the
    node has to allocate, the others of the node's capacity.
    """

    enable: bool = False
    cpu_suppress: int = 65
    cpu_suppress_min: int | None = None
    cpu_suppress_policy: SuppressPolicy = SuppressPolicy.CPUSET
    memory_evict: int | None = 70
    memory_evict_lower: int | None = None
    memory_allocatable_evict: int | None = None
    memory_allocatable_evict_lower: int | None = None
    cpu_evict_policy: CPUEvictPolicy = CPUEvictPolicy.REAL_LIMIT
    cpu_evict_satisfaction_upper: int | None = None
    cpu_evict_satisfaction_lower: int | None = None
    cpu_evict_be_usage: int = 90
    cpu_evict_window_seconds: int | None = None
    cpu_evict: int | None = None
    cpu_evict_lower: int | None = None
    cpu_allocatable_evict: int | None = None
    cpu_allocatable_evict_lower: int | None = None
    evict_priority: int | None = None
    """Pods up to this ``spec.priority`` may be evicted for the node's use."""
    allocatable_evict_priority: int | None = None
    """The same, for what was promised on the node."""
