"""``resourceUsedThresholdWithBE`` of a NodeSLO: how full a node may get with batch pods on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from koord_model.fields import Fields

MOST_PERCENT = 1_000_000
"""Upper bound of percentages of a node's allocatable; more are typing errors."""

MOST_SECONDS = 86_400
"""A day: nothing remembers usage for longer."""

MOST_EVICTED_PRIORITY = 7999
"""The highest priority below production's: what production was promised is not evicted for."""

_INT32 = 1 << 31


class SuppressPolicy(StrEnum):
    """Means to hold down best-effort pods: certain CPUs, or a quota on all of them."""

    CPUSET = "cpuset"
    CFS_QUOTA = "cfsQuota"


class CPUEvictPolicy(StrEnum):
    """Reference for best-effort pods' CPU: their present limit, or the amount sold."""

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


_PAIRS = (
    (
        "memoryEvictLowerPercent",
        "memory_evict_lower",
        "memoryEvictThresholdPercent",
        "memory_evict",
    ),
    (
        "memoryAllocatableEvictLowerPercent",
        "memory_allocatable_evict_lower",
        "memoryAllocatableEvictThresholdPercent",
        "memory_allocatable_evict",
    ),
    (
        "cpuEvictBESatisfactionLowerPercent",
        "cpu_evict_satisfaction_lower",
        "cpuEvictBESatisfactionUpperPercent",
        "cpu_evict_satisfaction_upper",
    ),
    ("cpuEvictLowerPercent", "cpu_evict_lower", "cpuEvictThresholdPercent", "cpu_evict"),
    (
        "cpuAllocatableEvictLowerPercent",
        "cpu_allocatable_evict_lower",
        "cpuAllocatableEvictThresholdPercent",
        "cpu_allocatable_evict",
    ),
)
"""Pairs of fields of which one must be below the other, in document's and class's spelling."""


def read(fields: Fields, usual: UsedThreshold) -> UsedThreshold:
    """The section, laid over ``usual``; what cannot be used costs only itself.

    A lower bound that is not below its threshold costs both: each alone may be the one that
    was meant.
    """

    def percent(name: str, default: int | None, most: int = 100) -> int | None:
        return fields.number(name, default, 0, most)

    found = UsedThreshold(
        enable=fields.flag("enable", usual.enable),
        cpu_suppress=fields.number("cpuSuppressThresholdPercent", usual.cpu_suppress, 0, 100),
        cpu_suppress_min=percent("cpuSuppressMinPercent", usual.cpu_suppress_min),
        cpu_suppress_policy=fields.word("cpuSuppressPolicy", usual.cpu_suppress_policy),
        memory_evict=percent("memoryEvictThresholdPercent", usual.memory_evict),
        memory_evict_lower=percent("memoryEvictLowerPercent", usual.memory_evict_lower),
        memory_allocatable_evict=percent(
            "memoryAllocatableEvictThresholdPercent", usual.memory_allocatable_evict, MOST_PERCENT
        ),
        memory_allocatable_evict_lower=percent(
            "memoryAllocatableEvictLowerPercent",
            usual.memory_allocatable_evict_lower,
            MOST_PERCENT,
        ),
        cpu_evict_policy=fields.word("cpuEvictPolicy", usual.cpu_evict_policy),
        cpu_evict_satisfaction_upper=percent(
            "cpuEvictBESatisfactionUpperPercent", usual.cpu_evict_satisfaction_upper
        ),
        cpu_evict_satisfaction_lower=percent(
            "cpuEvictBESatisfactionLowerPercent", usual.cpu_evict_satisfaction_lower
        ),
        cpu_evict_be_usage=fields.number(
            "cpuEvictBEUsageThresholdPercent", usual.cpu_evict_be_usage, 0, 100
        ),
        cpu_evict_window_seconds=fields.number(
            "cpuEvictTimeWindowSeconds", usual.cpu_evict_window_seconds, 1, MOST_SECONDS
        ),
        cpu_evict=percent("cpuEvictThresholdPercent", usual.cpu_evict),
        cpu_evict_lower=percent("cpuEvictLowerPercent", usual.cpu_evict_lower),
        cpu_allocatable_evict=percent(
            "cpuAllocatableEvictThresholdPercent", usual.cpu_allocatable_evict, MOST_PERCENT
        ),
        cpu_allocatable_evict_lower=percent(
            "cpuAllocatableEvictLowerPercent", usual.cpu_allocatable_evict_lower, MOST_PERCENT
        ),
        evict_priority=fields.number(
            "evictEnabledPriorityThreshold", usual.evict_priority, -_INT32, _INT32 - 1
        ),
        allocatable_evict_priority=fields.number(
            "allocatableEvictPriorityThreshold",
            usual.allocatable_evict_priority,
            0,
            MOST_EVICTED_PRIORITY,
        ),
    )
    return _without_contradictions(fields, found, usual)


def _without_contradictions(
    fields: Fields, found: UsedThreshold, usual: UsedThreshold
) -> UsedThreshold:
    kept: dict[str, int | None] = {}
    for lower_name, lower, upper_name, upper in _PAIRS:
        bottom, top = getattr(found, lower), getattr(found, upper)
        if bottom is not None and top is not None and bottom >= top:
            defaults = getattr(usual, lower), getattr(usual, upper)
            words = " and ".join(
                "unset" if percent is None else str(percent) for percent in defaults
            )
            fields.refuse(
                lower_name if fields.has(lower_name) else upper_name,
                f"{lower_name} below {upper_name}",
                f"defaults {words} kept",
            )
            kept |= {lower: defaults[0], upper: defaults[1]}
    return replace(found, **kept) if kept else found  # type: ignore[arg-type]
