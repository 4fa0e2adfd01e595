"""Cache ways and memory bandwidth of the classes: which pods' tasks share which resctrl group.

With ``bandwidth: feedback`` limits of memory bandwidth follow what is measured (``regulation``).
From the NodeSLO's ``resctrlQOS`` of each class: LSR's holds for LSE too. A pod with the
annotation ``node.koordinator.sh/resctrl`` has a group of its own (hook plugin ``resctrl``), one
in a virtual machine none: its threads are its hypervisor's. What percentages mean in ways and
bandwidth, on which hardware, is ``koord_host.resctrl``'s; that only changed schemata and new
tasks are written, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from koord_model.keys import ANNOTATION_RESCTRL
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.resctrl import CLASS_GROUPS, ResctrlLimits, class_group, class_limits
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    CacheClass,
    Decision,
    Plan,
    PodView,
    StrategyView,
    Term,
)
from koordlet.qos_manager.strategies.resctrl.regulation import Regulation, regulate, regulated

GATE = "RdtResctrl"
INTERVAL = "reconcile_interval_seconds"


class BandwidthLimits(StrEnum):
    """Source of the limits of memory bandwidth."""

    STATIC = "static"
    FEEDBACK = "feedback"


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of each class."""

    classes: Mapping[str, ResctrlLimits] = field(default_factory=dict)
    """By the name of its group (LSR, LS, BE); a class that is not enabled is not there."""
    bandwidth: BandwidthLimits = BandwidthLimits.STATIC
    """``static``: limits of memory bandwidth are those of ``classes``; ``feedback``: these are
    upper bounds, and lower classes are throttled while the memory is busy."""
    domain_capacity_gb: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """Bandwidth of the memory of one domain (a NUMA node, or those that share a cache), GB/s:
    measure it. ``feedback`` needs it."""
    cache_floor_gb: Annotated[float, Meta(ge=0, le=100_000)] = 4
    """``feedback`` does not throttle a class to less than this at one cache, GB/s."""


def settings(slo: NodeSLO) -> Settings:
    """The classes that are enabled."""
    limits = class_limits(slo)
    enabled = [name for name in CLASS_GROUPS if slo.of(QoSClass(name)).resctrl.enable]
    return Settings({name: limits[name] for name in enabled})


@dataclass(frozen=True, slots=True)
class _Memory:
    """By UID each pod with its groups as they were when it was looked at; the last classes."""

    groups: Mapping[str, tuple[PodView, tuple[str, ...]]] = field(default_factory=dict)
    caches: tuple[CacheClass, ...] = ()
    regulation: Regulation = field(default_factory=Regulation)


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """One shared group for each class that is enabled, with the tasks of its pods."""
    if not settings.classes:
        return Plan()
    if not view.node.kernel.resctrl:
        outcome = "no class has cache ways of its own: this node has no resctrl"
        return Plan(decisions=(Decision(outcome),))
    before = memory if isinstance(memory, _Memory) else _Memory()
    groups = {pod.uid: _groups(pod, view, before) for pod in view.pods if _shares(pod, settings)}
    regulation = _regulation(view, settings, before.regulation)
    capacity = _bytes(settings.domain_capacity_gb)
    caches = tuple(
        _class(name, regulated(limits, regulation, capacity), groups)
        for name, limits in settings.classes.items()
    )
    if caches == before.caches:
        caches = before.caches
    decisions = tuple(_decision(cache) for cache in caches)
    decisions += regulation.decisions
    return Plan(caches=caches, decisions=decisions, memory=_Memory(groups, caches, regulation))


def _regulation(view: StrategyView, settings: Settings, before: Regulation) -> Regulation:
    if settings.bandwidth is BandwidthLimits.STATIC:
        return Regulation()
    capacity, floor = _bytes(settings.domain_capacity_gb), settings.cache_floor_gb * 1e9
    return regulate(view, settings.classes, before, capacity, floor)


def _bytes(gigabytes: float | None) -> float | None:
    return None if gigabytes is None else gigabytes * 1e9


def _shares(pod: PodView, settings: Settings) -> bool:
    annotated = ANNOTATION_RESCTRL in pod.record.pod.annotations
    return class_group(pod.qos) in settings.classes and not annotated and not pod.in_vm


def _groups(pod: PodView, view: StrategyView, before: _Memory) -> tuple[PodView, tuple[str, ...]]:
    """The cgroups of its containers and sandboxes; looked up once for as long as it is the same."""
    known = before.groups.get(pod.uid)
    if known is not None and known[0] is pod:
        return known
    return pod, (pod.group, *view.cgroups.below(pod.group, "cpu"))


def _class(
    name: str, limits: ResctrlLimits, groups: Mapping[str, tuple[PodView, tuple[str, ...]]]
) -> CacheClass:
    found = (of_pod for pod, of_pod in groups.values() if class_group(pod.qos) == name)
    return CacheClass(limits, tuple(group for of_pod in found for group in of_pod))


def _decision(cache_class: CacheClass) -> Decision:
    outcome = f"pods of class {cache_class.limits.group} may use {cache_class.limits}"
    return Decision(
        outcome, given=(Term("cgroups", len(cache_class.groups)),), aspect=cache_class.limits.group
    )
