"""Ratios of amplification by what a node's pods use, which bound the configured ones. No IO.

The formula is Katalyst's (sysadvisor's ``overcommitmentaware/realtime``): pods may use a target of
the allocatable; what is left of that takes as many requests more as pods use of theirs.

    ratio = ((allocatable × target − used) ÷ load + requested) ÷ allocatable, at least 1

where ``load`` is used ÷ requested, from the estimated load of pods to come to 1. On purpose
different: a ratio moves by steps, it never falls below what is requested already, and CPUs that
the kubelet has given to pods for themselves are left out, as Katalyst's controller does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from koord_model.keys import ANNOTATION_AMPLIFICATION_RATIO, CPU, MEMORY

from koord_manager.noderesource.core.node_state import CpuMemory
from koord_manager.slo_config.core.colocation import RealtimeOvercommit, ResourceAmplification

DEAD_BAND = 0.05
"""A target that is nearer than this moves a ratio only to 1 or to the configured one."""
_MINUTE = 60.0
_LONGEST_STEP = 120.0
"""Seconds that count at most between two moves: a manager that was away makes no leap."""
_RESOURCES = (CPU, MEMORY)


class NodeLoad(NamedTuple):
    """A node's raw allocatable, and what its pods request and use: millicores and bytes.

    ``guaranteed`` millicores are of pods to which the kubelet has given whole CPUs. ``is_known``
    is whether the node reports what its pods use.
    """

    allocatable: CpuMemory
    request: CpuMemory
    used: CpuMemory
    guaranteed: int = 0
    is_known: bool = True


def realtime_ratio(
    allocatable: float, request: float, used: float, target: float, load: float
) -> float:
    """Katalyst's ratio; ``target`` and ``load`` are fractions. 1 without requests."""
    if request <= 0 or allocatable <= 0:
        return 1.0
    of_pods = max(min(used / request, 1.0), load)
    return max(((allocatable * target - used) / of_pods + request) / allocatable, 1.0)


def target_ratio(
    name: str, configured: float, load: NodeLoad, strategy: RealtimeOvercommit
) -> float:
    """The ratio that a resource of a node should come to; 1 of a node that does not report."""
    place = _RESOURCES.index(name)
    allocatable, request = load.allocatable[place], load.request[place]
    target, least = (
        (strategy.cpu_target_percent, strategy.cpu_load_percent)
        if name == CPU
        else (strategy.memory_target_percent, strategy.memory_load_percent)
    )
    ratio = 1.0
    if load.is_known:
        used = load.used[place]
        ratio = realtime_ratio(allocatable, request, used, target / 100, least / 100)
    ratio = min(configured, ratio)
    if name == CPU and allocatable > 0:
        kept = min(load.guaranteed, allocatable)
        ratio = ((allocatable - kept) * ratio + kept) / allocatable
    return min(configured, max(ratio, _floor(allocatable, request)))


def _floor(allocatable: float, request: float) -> float:
    """The ratio at which what is requested already just fits, with the decimals of a Node's."""
    return max(1.0, math.ceil(100 * request / allocatable) / 100) if allocatable > 0 else 1.0


@dataclass(slots=True)
class _Level:
    ratios: dict[str, float]
    moved_at: float
    known_at: float


@dataclass(slots=True)
class OvercommitLevels:
    """Present ratios by node and resource; times are in seconds, of one clock."""

    _levels: dict[str, _Level] = field(default_factory=dict)

    def ratios(
        self, node: str, amplification: ResourceAmplification, present: Mapping[str, float]
    ) -> Mapping[str, float]:
        """The ratios in force; of a node not moved yet those that it has, 1 of one without."""
        level = self._levels.get(node)
        return _within(amplification, level.ratios if level is not None else present)

    def move(
        self,
        node: str,
        amplification: ResourceAmplification,
        load: NodeLoad,
        present: Mapping[str, float],
        now: float,
        hold: float,
    ) -> bool:
        """Move a node's ratios by one step towards their targets; True if one of them moved.

        For ``hold`` seconds a node that does not report keeps its ratios: no report is not zero.
        ``present`` are the ratios that its Node has.
        """
        level = self._levels.get(node)
        if level is None:
            ratios = _within(amplification, present)
            level = self._levels[node] = _Level(ratios, now, now)
        before, strategy = dict(level.ratios), amplification.realtime
        level.ratios = _within(amplification, level.ratios)
        if load.is_known:
            level.known_at = now
        step = min(now - level.moved_at, _LONGEST_STEP) / _MINUTE * strategy.step_percent / 100
        if not load.is_known and now - level.known_at <= hold:
            step = 0.0
        configured = dict(amplification.ratios)
        for name, ratio in level.ratios.items():
            place = _RESOURCES.index(name)
            target = target_ratio(name, configured[name], load, strategy)
            floor = _floor(load.allocatable[place], load.request[place])
            at_an_end = target in (1.0, configured[name])
            moved = max(_stepped(ratio, target, step, 0.0 if at_an_end else DEAD_BAND), floor)
            level.ratios[name] = min(configured[name], moved)
        level.moved_at = now
        return level.ratios != before

    def drop(self, node: str) -> None:
        """Forget a node that is gone, or whose ratios are the configured ones."""
        self._levels.pop(node, None)


def present_ratios(annotations: Mapping[str, str], normalization: float) -> Mapping[str, float]:
    """The ratios that a Node has, without that of its CPUs' speed; none of what is not valid."""
    try:
        given = json.loads(annotations.get(ANNOTATION_AMPLIFICATION_RATIO, "") or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(given, dict):
        return {}
    found = {
        name: float(ratio)
        for name, ratio in given.items()
        if name in _RESOURCES and isinstance(ratio, int | float) and ratio >= 1
    }
    if CPU in found:
        found[CPU] = max(1.0, found[CPU] / normalization)
    return found


def _within(amplification: ResourceAmplification, ratios: Mapping[str, float]) -> dict[str, float]:
    """A ratio for each configured resource, at most as configured; 1 where there is none yet."""
    return {
        name: min(configured, max(1.0, ratios.get(name, 1.0)))
        for name, configured in amplification.ratios
        if name in _RESOURCES
    }


def _stepped(ratio: float, target: float, step: float, dead_band: float) -> float:
    if abs(target - ratio) < dead_band:
        return ratio
    return min(target, ratio + step) if target > ratio else max(target, ratio - step)
