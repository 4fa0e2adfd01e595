"""Evicts mid and batch pods while more memory is promised to them than the node has for them.

Koordinator's ``MemoryAllocatableEvict``; the arithmetic is ``claims.promised``'s. Only pods that
agreed to be evicted may go.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord_model.node_slo import NodeSLO

from koordlet.qos_manager.core.strategy import Plan, StrategyView
from koordlet.qos_manager.eviction.claims import allocatable

GATE = "MemoryAllocatableEvict"
INTERVAL = "memory_evict_interval_seconds"


@dataclass(frozen=True, slots=True)
class Settings:
    """From ``resourceUsedThresholdWithBE``."""

    enable: bool = False
    """True if the section is switched on."""
    threshold_percent: int | None = None
    """``memoryAllocatableEvictThresholdPercent`` of what is allocatable, above which is evicted."""
    lower_percent: int | None = None
    """``memoryAllocatableEvictLowerPercent``: down to which is evicted."""
    priority: int | None = None
    """``allocatableEvictPriorityThreshold``: pods up to this priority count and may go."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from the NodeSLO."""
    given = slo.threshold
    return Settings(
        given.enable,
        given.memory_allocatable_evict,
        given.memory_allocatable_evict_lower,
        given.allocatable_evict_priority,
    )


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """A claim for each resource of which too much is promised."""
    return allocatable.asked_plan(view, settings, GATE, "memory", allocatable.MEMORY, "bytes")
