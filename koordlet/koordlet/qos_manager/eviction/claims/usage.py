"""Evictions because the node's CPU or memory is used too much. No IO.

From the threshold on, what is above the lower threshold is to be freed (Koordinator, gates
CPUEvict, MemoryEvict and BEMemoryEvict)::

    use  = 100 × used / capacity
    need = used − capacity × lower / 100    where use ≥ threshold, else 0

which is Koordinator's capacity × (use − lower) / 100 without its rounding to whole percent.
Where use is an average, the need is the smaller of that and of the newest value: an average
still shows pods that have gone, for as long as its window. A pod releases what it uses. Memory
that is set aside for huge pages is neither capacity nor used here: no eviction frees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from koordlet.qos_manager.core.strategy import EvictionVictim, Plan, PodView, StrategyView, Term
from koordlet.qos_manager.eviction.claims import eviction_claim
from koordlet.qos_manager.eviction.claims.eviction_claim import NodeShortage
from koordlet.qos_manager.eviction.claims.measurements import average
from koordlet.qos_manager.eviction.claims.ranking import ReleaseOfPod
from koordlet.qos_manager.eviction.claims.thresholds import ThresholdBand

FORMULA = (
    "used = min(used now, used over the window); use = 100 × used / capacity; "
    "need = max(used − capacity × lower / 100, 0) where use ≥ threshold else 0"
)


class UsageMeasure(NamedTuple):
    """Usage of a node: its name in claims and for people, its unit, its kinds of metric."""

    resource: str
    word: str
    unit: str
    node_kind: str
    pod_kind: str


CPU = UsageMeasure("cpu", "CPU", "cores", "node_cpu_usage", "pod_cpu_usage")
MEMORY = UsageMeasure("memory", "memory", "bytes", "node_memory_usage", "pod_memory_usage")


@dataclass(frozen=True, slots=True)
class UsageRule:
    """One rule: which pods go for which resource, and whether only pods that agreed to it.

    ``pods`` are those that it may evict, ``order`` puts them in order. ``window_seconds`` is
    what the node's use is averaged over; ``None``: it is the newest.
    """

    name: str
    measure: UsageMeasure
    pods: Callable[[Iterable[PodView]], Iterable[PodView]]
    order: Callable[[Iterable[PodView], ReleaseOfPod], tuple[EvictionVictim, ...]]
    opt_in: bool
    window_seconds: float | None = None


def need(used: float, capacity: float, band: ThresholdBand) -> float:
    """Return the amount to free, in the unit of both; 0 below the threshold."""
    if 100 * used < band.threshold * capacity:
        return 0.0
    return max(used - capacity * band.lower / 100, 0.0)


def capacity(view: StrategyView, measure: UsageMeasure) -> float | None:
    """Of the node: cores, or bytes; ``None`` until it is known."""
    found = len(view.cpus) if measure is CPU else view.memory_bytes
    return max(found - set_aside(view, measure), 0.0) or None if found else None


def node_use(
    view: StrategyView, measure: UsageMeasure, seconds: float | None = None
) -> float | None:
    """Return the node's usage: an average, or the newest; ``None`` where it is not known."""
    found = average(view, measure.node_kind, seconds=seconds)
    return None if found is None else max(found - set_aside(view, measure), 0.0)


def set_aside(view: StrategyView, measure: UsageMeasure) -> float:
    """Return the memory set aside for huge pages."""
    return (view.latest.value("node_memory_huge_pages") or 0.0) if measure is MEMORY else 0.0


def used_by(view: StrategyView, measure: UsageMeasure) -> ReleaseOfPod:
    """Return the function of each pod's present usage."""
    return lambda pod: view.latest.value(measure.pod_kind, pod.uid)


def plan(view: StrategyView, rule: UsageRule, band: ThresholdBand) -> Plan:
    """Return a rule's plan for the node as it is."""
    measure = rule.measure
    if (waiting := eviction_claim.waits(view)) is not None:
        return waiting
    total = capacity(view, measure)
    newest = node_use(view, measure)
    over_window = node_use(view, measure, rule.window_seconds)
    if total is None:
        return eviction_claim.nothing(f"no eviction: the node's {measure.word} is not known")
    if newest is None or over_window is None:
        return eviction_claim.nothing(f"no eviction: how much {measure.word} is used is not known")
    used = min(newest, over_window)
    given = (
        Term("used", used, measure.unit),
        Term("capacity", total, measure.unit),
        Term("lower", band.lower, "%"),
        Term("use", 100 * used / total, "%"),
        Term("threshold", band.threshold, "%"),
        Term("used now", newest, measure.unit),
        Term("used over the window", over_window, measure.unit),
    )
    wanted = need(used, total, band)
    if wanted <= 0:
        return eviction_claim.nothing(
            f"no eviction: {measure.word} is below its threshold",
            FORMULA,
            (*given, Term("need", wanted, measure.unit)),
        )
    shortage = NodeShortage(
        rule.name,
        measure.resource,
        measure.unit,
        f"{measure.word} is at or above its threshold",
        wanted,
        FORMULA,
        given,
    )
    victims = rule.order(rule.pods(view.pods), used_by(view, measure))
    return eviction_claim.to_free(shortage, victims, rule.opt_in)
