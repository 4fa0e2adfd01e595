"""Evicts pods up to a priority while the node's CPU is used too much.

Koordinator's ``CPUEvict``; the arithmetic is ``claims.usage``'s. Use is the average over a
window. Only pods that agreed to be evicted may go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from koord_model.node_slo import NodeSLO
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Plan, StrategyView
from koordlet.qos_manager.eviction.claims import eviction_claim, ranking, thresholds, usage

GATE = "CPUEvict"
INTERVAL = "cpu_evict_interval_seconds"


@dataclass(frozen=True, slots=True)
class Settings:
    """From ``resourceUsedThresholdWithBE``."""

    enable: bool = False
    """True if the section is switched on."""
    threshold_percent: int | None = None
    """``cpuEvictThresholdPercent`` of the node's CPUs, from which on is evicted."""
    lower_percent: int | None = None
    """``cpuEvictLowerPercent``: down to which is evicted; 2 below the threshold without."""
    priority: int | None = None
    """``evictEnabledPriorityThreshold``: pods up to this priority may go."""
    window_seconds: Annotated[int, Meta(ge=1, le=86_400)] | None = None
    """``cpuEvictTimeWindowSeconds``: what use is averaged over; the newest value without."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from the NodeSLO."""
    given = slo.threshold
    return Settings(
        given.enable,
        given.cpu_evict,
        given.cpu_evict_lower,
        given.evict_priority,
        given.cpu_evict_window_seconds,
    )


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """A claim of CPU while the node is above the threshold."""
    try:
        thresholds.enabled(settings.enable)
        band = thresholds.use_band(
            settings.threshold_percent,
            settings.lower_percent,
            "cpuEvictThresholdPercent",
            "cpuEvictLowerPercent",
        )
        highest = thresholds.required(settings.priority, "evictEnabledPriorityThreshold")
    except ValueError as error:
        return eviction_claim.off(error)
    rule = usage.UsageRule(
        GATE,
        usage.CPU,
        pods=partial(ranking.up_to, highest=highest),
        order=ranking.by_priority,
        opt_in=True,
        window_seconds=settings.window_seconds,
    )
    return usage.plan(view, rule, band)
