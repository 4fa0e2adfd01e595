"""Evicts pods up to a priority while the node's memory is used too much.

Koordinator's ``MemoryEvict``; the arithmetic is ``claims.usage``'s. Use is the newest value,
without page cache. Only pods that agreed to be evicted may go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from koord_model.node_slo import NodeSLO

from koordlet.qos_manager.core.strategy import Plan, StrategyView
from koordlet.qos_manager.eviction.claims import eviction_claim, ranking, thresholds, usage

GATE = "MemoryEvict"
INTERVAL = "memory_evict_interval_seconds"


@dataclass(frozen=True, slots=True)
class Settings:
    """From ``resourceUsedThresholdWithBE``."""

    enable: bool = False
    """True if the section is switched on."""
    threshold_percent: int | None = 70
    """``memoryEvictThresholdPercent`` of the node's memory, from which on is evicted."""
    lower_percent: int | None = None
    """``memoryEvictLowerPercent``: down to which is evicted; 2 below the threshold without."""
    priority: int | None = None
    """``evictEnabledPriorityThreshold``: pods up to this priority may go."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from the NodeSLO."""
    given = slo.threshold
    return Settings(
        given.enable, given.memory_evict, given.memory_evict_lower, given.evict_priority
    )


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """A claim of memory while the node is above the threshold."""
    try:
        thresholds.enabled(settings.enable)
        band = thresholds.use_band(
            settings.threshold_percent,
            settings.lower_percent,
            "memoryEvictThresholdPercent",
            "memoryEvictLowerPercent",
        )
        highest = thresholds.required(settings.priority, "evictEnabledPriorityThreshold")
    except ValueError as error:
        return eviction_claim.off(error)
    rule = usage.UsageRule(
        GATE,
        usage.MEMORY,
        pods=partial(ranking.up_to, highest=highest),
        order=ranking.by_priority,
        opt_in=True,
    )
    return usage.plan(view, rule, band)
