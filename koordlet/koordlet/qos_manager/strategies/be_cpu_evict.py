"""Evicts best-effort pods that get much less CPU than they request.

Koordinator's ``BECPUEvict``; the arithmetic is ``claims.satisfaction``'s. What they may
have is the real limit of their cgroups, or what the Node has of ``batch-cpu`` (policy
evictByAllocatable; 0 counts as 1 millicore). Pods go by ``spec.priority``, then who uses most of
its request; each releases its request of ``batch-cpu``, in millicores. One that has Katalyst's
``suppression_tolerance_rate`` stays while the request of all is at most so many times the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from koord_model import katalyst
from koord_model.keys import BATCH_CPU
from koord_model.node_slo import NodeSLO
from koord_model.used_threshold import CPUEvictPolicy
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView, Term
from koordlet.qos_manager.eviction.claims import (
    eviction_claim,
    ranking,
    satisfaction,
    thresholds,
    usage,
)
from koordlet.qos_manager.eviction.claims.allocatable import batch_cpu
from koordlet.qos_manager.eviction.claims.eviction_claim import NodeShortage
from koordlet.qos_manager.eviction.claims.measurements import average
from koordlet.qos_manager.eviction.claims.satisfaction import (
    FORMULA,
    BestEffortCPU,
    SatisfactionBounds,
)

GATE = "BECPUEvict"
INTERVAL = "cpu_evict_interval_seconds"

_MOST_LOWER, _MOST_UPPER = 60, 99
_MOST_TOLERANCE = 5.0
"""Katalyst's bound: no pod stays for ever."""


@dataclass(frozen=True, slots=True)
class Settings:
    """From ``resourceUsedThresholdWithBE``."""

    enable: bool = False
    """True if the section is switched on."""
    lower_percent: int | None = None
    """``cpuEvictBESatisfactionLowerPercent``: limit / request from which is evicted, 1 to 60."""
    upper_percent: int | None = None
    """``cpuEvictBESatisfactionUpperPercent``: up to which, 1 to 99."""
    busy_percent: Annotated[int, Meta(ge=0, le=100)] = 90
    """``cpuEvictBEUsageThresholdPercent``: use of the limit below which nobody is evicted."""
    window_seconds: Annotated[int, Meta(ge=1, le=86_400)] | None = None
    """``cpuEvictTimeWindowSeconds``: for how long it must be so; the newest values without."""
    policy: CPUEvictPolicy = CPUEvictPolicy.REAL_LIMIT
    """``cpuEvictPolicy``: what counts as the limit."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from the NodeSLO."""
    given = slo.threshold
    return Settings(
        given.enable,
        given.cpu_evict_satisfaction_lower,
        given.cpu_evict_satisfaction_upper,
        given.cpu_evict_be_usage,
        given.cpu_evict_window_seconds,
        given.cpu_evict_policy,
    )


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """A claim of ``batch-cpu`` while best-effort pods get too little."""
    try:
        bounds = _bounds(settings)
    except ValueError as error:
        return eviction_claim.off(error)
    if (waiting := eviction_claim.waits(view)) is not None:
        return waiting
    over_window = _measured(view, settings, settings.window_seconds)
    now = _measured(view, settings, None)
    if over_window is None or now is None:
        return eviction_claim.nothing(
            "no eviction: what best-effort pods use and may have is not known"
        )
    found = satisfaction.smaller(
        satisfaction.need(over_window, bounds), satisfaction.need(now, bounds)
    )
    given = _terms(over_window, now, bounds)
    if found.need <= 0:
        need = Term("need", found.need, "millicores")
        return eviction_claim.nothing(found.what, FORMULA, (*given, need))
    shortage = NodeShortage(GATE, BATCH_CPU, "millicores", found.what, found.need, FORMULA, given)
    pods = [pod for pod in ranking.best_effort(view.pods) if not _tolerates(pod, now)]
    victims = ranking.by_use(pods, batch_cpu, _share_used(view))
    return eviction_claim.to_free(shortage, victims, opt_in=False)


def _tolerates(pod: PodView, now: BestEffortCPU) -> bool:
    """True if a pod says that it works with so much less CPU than it requests."""
    rate = katalyst.ratio(pod.record.pod.annotations, "suppression_tolerance_rate", 0.0)
    return now.request <= min(rate or 0.0, _MOST_TOLERANCE) * now.limit


def _bounds(settings: Settings) -> SatisfactionBounds:
    thresholds.enabled(settings.enable)
    lower_field, upper_field = (
        "cpuEvictBESatisfactionLowerPercent",
        "cpuEvictBESatisfactionUpperPercent",
    )
    lower = thresholds.within(settings.lower_percent, lower_field, 1, _MOST_LOWER)
    upper = thresholds.within(settings.upper_percent, upper_field, lower, _MOST_UPPER)
    return SatisfactionBounds(lower, upper, settings.busy_percent)


def _measured(
    view: StrategyView, settings: Settings, seconds: float | None
) -> BestEffortCPU | None:
    usage_now, request = (
        average(view, "node_be", "cpu", word, seconds=seconds) for word in ("usage", "request")
    )
    if settings.policy is CPUEvictPolicy.ALLOCATABLE:
        limit = _allocatable(view)
    else:
        limit = average(view, "node_be", "cpu", "real-limit", seconds=seconds)
    if usage_now is None or request is None or limit is None:
        return None
    return BestEffortCPU(usage_now, request, limit)


def _allocatable(view: StrategyView) -> float | None:
    found = view.allocatable.get(BATCH_CPU)
    return None if found is None or found < 0 else max(float(found), satisfaction.LITTLE)


def _share_used(view: StrategyView) -> Callable[[PodView], float | None]:
    """Use of its request, by pod; 0 of pods without a request."""
    used = usage.used_by(view, usage.CPU)

    def share(pod: PodView) -> float | None:
        cores, request = used(pod), batch_cpu(pod)
        return None if cores is None else 1000 * cores / request if request else 0.0

    return share


def _terms(
    over_window: BestEffortCPU, now: BestEffortCPU, bounds: SatisfactionBounds
) -> tuple[Term, ...]:
    return (
        Term("request", now.request, "millicores"),
        Term("upper", bounds.upper, "%"),
        Term("limit", now.limit, "millicores"),
        Term("lower", bounds.lower, "%"),
        Term("usage", now.usage, "millicores"),
        Term("busy", bounds.busy, "%"),
        Term("request over the window", over_window.request, "millicores"),
        Term("limit over the window", over_window.limit, "millicores"),
        Term("usage over the window", over_window.usage, "millicores"),
    )
