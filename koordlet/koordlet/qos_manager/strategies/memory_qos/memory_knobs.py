"""Knobs for memory QoS: names and values, no IO.

The list includes knobs that only some vendors' kernels have; the caller checks whether
they are there.
"""

from __future__ import annotations

from koord_model.memory_qos import MemoryQoS

from koordlet.qos_manager.strategies.memory_qos.memory_protection import (
    MemoryProtection,
    PageCacheLimit,
)

MIN, LOW, HIGH = "memory.min", "memory.low", "memory.high"
RATIO, SCALE, ADJ = "memory.wmark_ratio", "memory.wmark_scale_factor", "memory.wmark_min_adj"
BY_PRIORITY, PRIORITY = "memory.use_priority_oom", "memory.priority"
OOM_GROUP = "memory.oom.group"
_CACHE = "memory.pagecache_limit"


def protecting(memory_protection: MemoryProtection) -> dict[str, int]:
    """Of any group; without protection its knobs are left as they were found."""
    return {
        knob: size
        for knob, size in ((MIN, memory_protection.least), (LOW, memory_protection.low))
        if size
    }


def alike(asked: MemoryQoS) -> dict[str, int]:
    """Return the values that pods and their containers have in common."""
    optional = {
        BY_PRIORITY: asked.priority_enable,
        PRIORITY: asked.priority,
        OOM_GROUP: asked.oom_kill_group,
    }
    return {
        RATIO: asked.wmark_ratio,
        SCALE: asked.wmark_scale_permill,
        ADJ: asked.wmark_min_adj,
    } | _without_none(optional)


def caching(limit: PageCacheLimit) -> dict[str, int]:
    """Of pods: how much page cache they may have."""
    return _without_none(
        {
            f"{_CACHE}.enable": limit.enable,
            f"{_CACHE}.size": limit.size,
            f"{_CACHE}.sync": limit.sync,
        }
    )


def _without_none(values: dict[str, int | None]) -> dict[str, int]:
    return {knob: value for knob, value in values.items() if value is not None}
