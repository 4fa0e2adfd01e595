"""Memory QoS of a class, as the NodeSLO's ``memoryQOS`` asks, or of a pod by its annotation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryQoS:
    """What of a pod's memory is protected, and when it is held back; a disabled class is neutral.

    ``min_limit``, ``low_limit`` are percent of the request; ``throttling`` is where between
    request and limit (0: nowhere). ``wmark_*`` are of vendors' kernels: ratio in percent,
    scale in permill, adj -25 to 50. ``None`` leaves a knob alone.
    """

    enable: bool = False
    min_limit: int = 0
    low_limit: int = 0
    throttling: int = 0
    wmark_ratio: int = 0
    wmark_scale_permill: int = 50
    wmark_min_adj: int = 0
    priority_enable: int | None = None
    priority: int | None = None
    oom_kill_group: int = 0
    page_cache_enable: bool | None = None
    page_cache_limit_percent: int | None = None
    page_cache_limit_size: int | None = None
    page_cache_reclaim_sync: bool | None = None
