"""Faults of nodes, and how long this leader has seen them. No IO.

Times are of a clock that stands still while this manager hears nothing: what it could not see
counts for nobody. A new leader begins to count anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from koord_manager.node_taints.core.taints import OWN_PREFIX, NodeTaint
from koord_manager.slo_config.core.backstop import (
    SILENT,
    BackstopRule,
    BackstopRules,
)

_LONGEST_STEP = 30.0
"""Seconds between two looks that count at most: a process may have been stopped."""


@dataclass(slots=True)
class AttendedClock:
    """Seconds for which this leader has looked and heard."""

    seconds: float = 0.0
    _at: float | None = None

    def advance(self, now: float, *, hears: bool) -> float:
        """Go on to ``now``, of a steady clock; return the attended seconds."""
        step = 0.0 if self._at is None else min(now - self._at, _LONGEST_STEP)
        self._at = now
        if hears:
            self.seconds += step
        return self.seconds


class NodeObservation(NamedTuple):
    """A node as one look finds it.

    ``updated`` is the time of its koordlet's newest report, by its own clock; 0 without any. It
    has missed a report after ``missed_after`` seconds without one, and is silent after
    ``silent_after``. ``own`` are taints from here that it has.
    """

    name: str
    uid: str
    updated: float
    missed_after: float
    silent_after: float
    conditions: Mapping[str, str]
    rules: BackstopRules
    own: frozenset[NodeTaint]


class NodeFault(NamedTuple):
    """One fault of a node, seen for ``age`` seconds; it counts from ``limit`` on.

    ``is_held`` is whether the node has its taint already, from this leader or an earlier one.
    """

    cause: str
    rule: BackstopRule
    age: float
    limit: float
    is_held: bool

    @property
    def taint(self) -> NodeTaint:
        """The taint for it."""
        return NodeTaint(OWN_PREFIX + self.cause, self.rule.effect.value)

    @property
    def is_due(self) -> bool:
        """True if the node is to have its taint."""
        return self.is_held or self.age >= self.limit

    @property
    def is_suspect(self) -> bool:
        """True if it counts for the stop: half the time is enough, so that the stop is early."""
        return self.is_held or self.age >= self.limit / 2


class Examination(NamedTuple):
    """``watched`` are the causes that the node could have, ``faults`` those that it has."""

    watched: tuple[str, ...]
    faults: tuple[NodeFault, ...]


@dataclass(slots=True)
class _History:
    """``updated`` of a node at ``heard``; ``is_fresh`` if a report has come to this leader."""

    uid: str
    updated: float
    heard: float
    is_fresh: bool = False
    since: dict[str, float] = field(default_factory=dict)


class FaultTracker:
    """Remembers since when nodes are unhealthy."""

    def __init__(self) -> None:
        self._nodes: dict[str, _History] = {}

    def examine(self, observed: NodeObservation, now: float) -> Examination:
        """The faults of a node at ``now``, attended seconds."""
        known = self._nodes.get(observed.name)
        if known is None or known.uid != observed.uid:
            known = self._nodes[observed.name] = _History(observed.uid, observed.updated, now)
        elif known.updated != observed.updated:
            known.updated, known.heard, known.is_fresh = observed.updated, now, True
        watched, found = _conditions(known, observed, now)
        if observed.updated and observed.rules.silent.enable:
            watched.append(SILENT)
            if fault := _silence(known, observed, now):
                found.append(fault)
        return Examination(tuple(watched), tuple(found))

    def keep(self, names: Mapping[str, object]) -> None:
        """Forget all other nodes."""
        for name in self._nodes.keys() - names.keys():
            del self._nodes[name]


def _conditions(
    known: _History, observed: NodeObservation, now: float
) -> tuple[list[str], list[NodeFault]]:
    rules = {
        cause: rule
        for cause, rule in observed.rules.conditions
        if rule.rule.enable and cause in observed.conditions
    }
    since, known.since, found = known.since, {}, []
    for cause, rule in rules.items():
        if observed.conditions[cause] == rule.status:
            known.since[cause] = since.get(cause, now)
            age = now - known.since[cause]
            found.append(_fault(observed, cause, rule.rule, age, rule.after_seconds))
    return list(rules), found


def _silence(known: _History, observed: NodeObservation, now: float) -> NodeFault | None:
    """Silence of a koordlet; a node that an earlier leader tainted is silent until it reports."""
    age = now - known.heard
    fault = _fault(observed, SILENT, observed.rules.silent, age, observed.silent_after)
    is_quiet = age >= observed.missed_after or not known.is_fresh
    if fault.is_held and is_quiet:
        return fault
    return fault._replace(is_held=False) if age >= observed.missed_after else None


def _fault(
    observed: NodeObservation, cause: str, rule: BackstopRule, age: float, limit: float
) -> NodeFault:
    held = any(taint.name == OWN_PREFIX + cause for taint in observed.own)
    return NodeFault(cause, rule, age, limit, held)
