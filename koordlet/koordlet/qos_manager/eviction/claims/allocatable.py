"""Evictions because more is promised to mid and batch pods than the node now has for them. No IO.

What the manager lets mid and batch pods have changes with what others use; what was promised
to those that run already stays. For each of their resources (Koordinator, gates
CPUAllocatableEvict and MemoryAllocatableEvict)::

    need = promised − allocatable × lower / 100    where promised > allocatable × threshold / 100

``promised`` is what the pods of the class up to a priority request. A pod releases what it
requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from koord_model.extended_resources import batch_resources
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY
from koord_model.priority import BANDS, PriorityClass

from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView, Term
from koordlet.qos_manager.eviction.claims import eviction_claim, ranking, thresholds
from koordlet.qos_manager.eviction.claims.eviction_claim import NodeShortage
from koordlet.qos_manager.eviction.claims.thresholds import ThresholdBand, within

FORMULA = (
    "need = max(promised − allocatable × lower / 100, 0)"
    " where promised > allocatable × threshold / 100 else 0"
)

CPU: Mapping[PriorityClass, str] = {PriorityClass.BATCH: BATCH_CPU, PriorityClass.MID: MID_CPU}
MEMORY: Mapping[PriorityClass, str] = {
    PriorityClass.BATCH: BATCH_MEMORY,
    PriorityClass.MID: MID_MEMORY,
}
"""Names of each class's resources: CPU in millicores, memory in bytes."""

_HIGHEST = BANDS[PriorityClass.MID][-1]


@dataclass(frozen=True, slots=True)
class AllocatableRule:
    """One rule: which resources of which class, and pods up to which priority count and go."""

    name: str
    resources: Mapping[PriorityClass, str]
    unit: str
    highest: int


class AllocatableThresholds(Protocol):
    """The settings of a rule: percentages of allocatable resources, and the highest priority."""

    @property
    def enable(self) -> bool: ...
    @property
    def threshold_percent(self) -> int | None: ...
    @property
    def lower_percent(self) -> int | None: ...
    @property
    def priority(self) -> int | None: ...


def asked_plan(
    view: StrategyView,
    asked: AllocatableThresholds,
    name: str,
    word: str,
    resources: Mapping[PriorityClass, str],
    unit: str,
) -> Plan:
    """Return a rule's plan, or why it is off; the NodeSLO calls its fields by ``word``."""
    try:
        thresholds.enabled(asked.enable)
        band = thresholds.promise_band(
            asked.threshold_percent,
            asked.lower_percent,
            f"{word}AllocatableEvictThresholdPercent",
            f"{word}AllocatableEvictLowerPercent",
        )
        most = highest(asked.priority, "allocatableEvictPriorityThreshold")
    except ValueError as error:
        return eviction_claim.off(error)
    return plan(view, AllocatableRule(name, resources, unit, most), band)


def highest(priority: int | None, field: str) -> int:
    """The highest priority whose promises count; none above mid's.

    Raises:
        ValueError: it is not set, or above: what production was promised is not evicted for.
    """
    return within(priority, field, 0, _HIGHEST)


def need(promised: float, allocatable: float, band: ThresholdBand) -> float:
    """Return the amount to free, in the unit of both; 0 up to the threshold."""
    if 100 * promised <= band.threshold * allocatable:
        return 0.0
    return max(promised - allocatable * band.lower / 100, 0.0)


def batch_cpu(pod: PodView) -> int | None:
    """Millicores a pod requests of ``batch-cpu``; ``None`` if unknown.

    For a pod that is in no list yet, the annotation decides.
    """
    if pod.demand is not None:
        return pod.demand.requests.get(BATCH_CPU, 0)
    try:
        containers = batch_resources(pod.record.pod)
    except ValueError:
        # The hooks log the error.
        return None
    if containers is None:
        return None
    return sum(
        container.cpu_request.value for container in containers.values() if container.cpu_request
    )


def plan(view: StrategyView, rule: AllocatableRule, band: ThresholdBand) -> Plan:
    """Return a rule's plan for the node as it is: a claim for each resource that is oversold."""
    if (waiting := eviction_claim.waits(view)) is not None:
        return waiting
    if not view.allocatable:
        return eviction_claim.nothing("no eviction: it is not known what the Node has to allocate")
    pods = tuple(ranking.up_to(view.pods, rule.highest))
    return eviction_claim.together(
        *(
            _of_class(
                view, rule, band, resource, [pod for pod in pods if pod.priority_class is priority]
            )
            for priority, resource in rule.resources.items()
        )
    )


def _of_class(
    view: StrategyView,
    rule: AllocatableRule,
    band: ThresholdBand,
    resource: str,
    pods: Iterable[PodView],
) -> Plan:
    requests = [(pod, pod.requests.get(resource, 0)) for pod in pods]
    promised = sum(asked for _, asked in requests)
    if not promised:
        return eviction_claim.nothing(f"no eviction: no pod requests {resource}", aspect=resource)
    allocatable = view.allocatable.get(resource)
    if allocatable is None:
        # A manager that is away takes the resource off the Node: no reason to evict all.
        outcome = f"no eviction: the Node does not say how much {resource} it has"
        return eviction_claim.nothing(outcome, aspect=resource)
    given = (
        Term("promised", promised, rule.unit),
        Term("allocatable", allocatable, rule.unit),
        Term("lower", band.lower, "%"),
        Term("threshold", band.threshold, "%"),
    )
    wanted = need(promised, allocatable, band)
    if wanted <= 0:
        outcome = f"no eviction: {resource} is not oversold"
        need_term = Term("need", wanted, rule.unit)
        return eviction_claim.nothing(outcome, FORMULA, (*given, need_term), resource)
    shortage = NodeShortage(
        rule.name, resource, rule.unit, f"{resource} is oversold", wanted, FORMULA, given, resource
    )
    known = {pod.uid: float(asked) for pod, asked in requests}
    victims = ranking.by_priority((pod for pod, _ in requests), lambda pod: known[pod.uid])
    return eviction_claim.to_free(shortage, victims, opt_in=True)
