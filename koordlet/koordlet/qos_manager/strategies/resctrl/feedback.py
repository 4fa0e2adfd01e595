"""Arithmetic of memory bandwidth by feedback: measured traffic in, percent of a limit out. No IO.

The formulas are those of Katalyst's memory bandwidth plugin, with the differences of ADR 85. A
memory domain is the memory of one or several NUMA nodes and the caches whose CPUs are there.
Traffic leaves a cache (that is what resctrl counts and limits) and arrives at domains (that is
what saturates). Traffic is in bytes a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from koord_model.node_info import Processor
from koord_model.resctrl import CLASS_GROUPS

ROOT = "root"
"""The root group: tasks of no class, such as the system's. It is measured, never limited."""

PRIORITY = (ROOT, *CLASS_GROUPS)
"""Groups by priority, the highest first: Katalyst's system, dedicated, shared, reclaimed."""

THROTTLE_PERCENT, EASE_PERCENT = 5, 20
"""Below the first part of free bandwidth groups are throttled, above the second they are eased."""

STEP_PERCENT = 10
"""A limit moves by so much of the full bandwidth at once, or by a step of the hardware's."""

_ILL_CONDITIONED = 100.0


class GroupTraffic(NamedTuple):
    """Traffic of one group through one cache: in all, and to the memory beside the cache."""

    total: float
    local: float


class ChannelState(StrEnum):
    """State of a domain's memory bandwidth."""

    THROTTLE = "throttled"
    HOLD = "held"
    EASE = "eased"


class DomainTargets(NamedTuple):
    """Bytes a second that each group uses and may use at a domain."""

    state: ChannelState
    free: float
    uses: Mapping[str, float]
    by_group: Mapping[str, float]


class HardwareSteps(NamedTuple):
    """The least limit and the distance of two limits, in percent of the full bandwidth."""

    least: float = 1.0
    step: float = 1.0


def memory_domains(cpus: Iterable[Processor]) -> Mapping[int, int]:
    """The domain of each cache: the least NUMA node of its CPUs.

    So a socket's nodes are one domain where they share a cache, and a node's caches are in one.
    """
    domains: dict[int, int] = {}
    for cpu in cpus:
        if cpu.l3 >= 0:
            domains[cpu.l3] = min(cpu.node, domains.get(cpu.l3, cpu.node))
    return domains


def group_targets(capacity: float, uses: Mapping[str, float]) -> DomainTargets:
    """Divide a domain's bandwidth: each group may use what those above it leave.

    While less than ``THROTTLE_PERCENT`` is free, so much is taken from the lowest group, and what
    it does not have from the next. Between both percentages all may go on as they do: limits come
    to rest.
    """
    free = max(capacity - sum(uses.values()), 0.0)
    if free >= capacity * THROTTLE_PERCENT / 100:
        if free <= capacity * EASE_PERCENT / 100:
            return DomainTargets(ChannelState.HOLD, free, uses, uses)
        return DomainTargets(ChannelState.EASE, free, uses, _limits(capacity, uses))
    missing = capacity * THROTTLE_PERCENT / 100
    targets = _limits(capacity, uses)
    for group in reversed(PRIORITY):
        if group in targets:
            taken = min(missing, targets[group])
            targets[group] -= taken
            missing -= taken
    return DomainTargets(ChannelState.THROTTLE, free, uses, targets)


def _limits(capacity: float, uses: Mapping[str, float]) -> dict[str, float]:
    limits, available = {}, capacity
    for group in PRIORITY:
        if group in uses:
            limits[group] = available
            available = max(available - uses[group], 0.0)
    return limits


def flow_matrix(local: Sequence[float], remote: Sequence[float]) -> np.ndarray:
    """The part of each domain's traffic (row) that arrives at each domain (column).

    What is remote goes to the other domains alike. A domain alone has no other: all of its
    traffic arrives at home, whatever the counters say.
    """
    count = len(local)
    if count == 1:
        return np.ones((1, 1))
    ratios = [
        near / (near + far) if near + far > 0 else 1.0
        for near, far in zip(local, remote, strict=True)
    ]
    matrix = np.tile(((1 - np.array(ratios)) / (count - 1))[:, None], (1, count))
    np.fill_diagonal(matrix, ratios)
    return matrix


def outgoing_targets(
    local: Sequence[float], remote: Sequence[float], incoming: Sequence[float]
) -> list[float]:
    """Traffic that a group may send from each domain so that each receives its target.

    The matrix cannot be inverted where traffic is as remote as it is local: there the target of
    each domain holds for what it sends.
    """
    matrix = flow_matrix(local, remote)
    if np.linalg.cond(matrix) > _ILL_CONDITIONED:
        return list(incoming)
    sent = np.asarray(incoming, np.float64) @ np.linalg.inv(matrix)
    return [max(float(value), 0.0) for value in sent]


def next_percent(
    previous: float, target: float, current: float, most: float, hardware: HardwareSteps
) -> int:
    """The limit that turns the current traffic into the target: previous × target / current.

    At most ``STEP_PERCENT`` away, rounded down to what the hardware has, within its least limit
    and ``most``.
    """
    reach = max(STEP_PERCENT, hardware.step)
    wanted = previous * target / current if current > 0 else previous + reach
    wanted = min(max(wanted, previous - reach), previous + reach)
    # What stays the same must not become a step less by a rounding error.
    stepped = (wanted + 1e-3) // hardware.step * hardware.step
    return int(max(min(stepped, most), hardware.least, 1))
