"""Evicts best-effort pods while the node's memory is used too much.

Koordinator's ``BEMemoryEvict``; the arithmetic is ``claims.usage``'s. Use is the newest value,
without page cache. Pods go by ``spec.priority``, then the pod that uses most.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord_model.node_slo import NodeSLO

from koordlet.qos_manager.core.strategy import Plan, StrategyView
from koordlet.qos_manager.eviction.claims import eviction_claim, ranking, thresholds, usage

GATE = "BEMemoryEvict"
INTERVAL = "memory_evict_interval_seconds"

_RULE = usage.UsageRule(
    GATE, usage.MEMORY, pods=ranking.best_effort, order=ranking.by_use, opt_in=False
)


@dataclass(frozen=True, slots=True)
class Settings:
    """From ``resourceUsedThresholdWithBE``."""

    enable: bool = False
    """True if the section is switched on."""
    threshold_percent: int | None = 70
    """``memoryEvictThresholdPercent`` of the node's memory, from which on is evicted."""
    lower_percent: int | None = None
    """``memoryEvictLowerPercent``: down to which is evicted; 2 below the threshold without."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from the NodeSLO."""
    given = slo.threshold
    return Settings(given.enable, given.memory_evict, given.memory_evict_lower)


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
    except ValueError as error:
        return eviction_claim.off(error)
    return usage.plan(view, _RULE, band)
