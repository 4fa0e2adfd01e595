"""Evictions because the node's CPU or memory is used too much. No IO.

From the threshold on, what is above the lower threshold is to be freed (Koordinator, gates
CPUEvict, MemoryEvict and BEMemoryEvict)::

    use  = 100 × used / capacity
    need = used − capacity × lower / 100    where use ≥ threshold, else 0

which is Koordinator's capacity × (use − lower) / 100 without its rounding to whole percent.
Where use is an average, the need is the smaller of that and of the newest value: an average
still shows pods that have gone, for as long as its window. A pod releases what it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from koordlet.arithmetic.claims import claiming
from koordlet.arithmetic.claims.claiming import Shortage
from koordlet.arithmetic.claims.measured import average
from koordlet.arithmetic.claims.ranking import Releases
from koordlet.arithmetic.claims.thresholds import Band
from koordlet.deciding.contract import Given, Plan, PodView, Victim, View

FORMULA = "used − capacity × lower / 100, from use ≥ threshold on"


class Measure(NamedTuple):
    """What of a node is used: its name in claims and for people, its unit, its kinds of metric."""

    resource: str
    word: str
    unit: str
    node_kind: str
    pod_kind: str


CPU = Measure("cpu", "CPU", "cores", "node_cpu_usage", "pod_cpu_usage")
MEMORY = Measure("memory", "memory", "bytes", "node_memory_usage", "pod_memory_usage")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: who goes for what, and whether only pods that agreed to it.

    ``pods`` are those that it may evict, ``order`` puts them in order. ``window_seconds`` is
    what the node's use is averaged over; ``None``: it is the newest.
    """

    name: str
    measure: Measure
    pods: Callable[[Iterable[PodView]], Iterable[PodView]]
    order: Callable[[Iterable[PodView], Releases], tuple[Victim, ...]]
    opt_in: bool
    window_seconds: float | None = None


def need(used: float, capacity: float, band: Band) -> float:
    """What is to be freed, in the unit of both; 0 below the threshold."""
    if 100 * used < band.threshold * capacity:
        return 0.0
    return max(used - capacity * band.lower / 100, 0.0)


def capacity(view: View, measure: Measure) -> float | None:
    """Of the node: cores, or bytes; ``None`` until it is known."""
    found = len(view.cpus) if measure is CPU else view.memory_bytes
    return float(found) if found else None


def used_by(view: View, measure: Measure) -> Releases:
    """What each pod uses now."""
    return lambda pod: view.latest.value(measure.pod_kind, pod.uid)


def plan(view: View, rule: Rule, band: Band) -> Plan:
    """What a rule wants of the node as it is."""
    measure = rule.measure
    if (waiting := claiming.waits(view)) is not None:
        return waiting
    total = capacity(view, measure)
    newest = average(view, measure.node_kind)
    over_window = average(view, measure.node_kind, seconds=rule.window_seconds)
    if total is None:
        return claiming.nothing(f"no eviction: the node's {measure.word} is not known")
    if newest is None or over_window is None:
        return claiming.nothing(f"no eviction: how much {measure.word} is used is not known")
    used = min(newest, over_window)
    given = (
        Given("used", used, measure.unit),
        Given("capacity", total, measure.unit),
        Given("lower", band.lower, "%"),
        Given("use", 100 * used / total, "%"),
        Given("threshold", band.threshold, "%"),
        Given("used now", newest, measure.unit),
        Given("used over the window", over_window, measure.unit),
    )
    wanted = need(used, total, band)
    if wanted <= 0:
        return claiming.nothing(
            f"no eviction: {measure.word} is below its threshold", FORMULA, given
        )
    shortage = Shortage(
        rule.name,
        measure.resource,
        measure.unit,
        f"{measure.word} is at or above its threshold",
        wanted,
        FORMULA,
        given,
    )
    victims = rule.order(rule.pods(view.pods), used_by(view, measure))
    return claiming.to_free(shortage, victims, rule.opt_in)
