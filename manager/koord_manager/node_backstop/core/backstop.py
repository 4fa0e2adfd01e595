"""Actions for unhealthy nodes: taints, one after the other, and evictions. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from koord_kube.core.token_bucket import TokenBucket
from koord_model.decision import Decision, Term

from koord_manager.node_backstop.core.faults import (
    AttendedClock,
    Examination,
    FaultTracker,
    NodeFault,
    NodeObservation,
)
from koord_manager.node_backstop.core.stop import DisruptionStop
from koord_manager.node_taints.core.source import NodeTaints
from koord_manager.node_taints.core.taints import OWN_PREFIX, NodeTaint
from koord_manager.slo_config.core.backstop import SILENT, EvictScope

TAINTS_PER_SECOND = 0.2
"""Katalyst's ``healthz-taint-qps``."""
_NONE: frozenset[NodeTaint] = frozenset()


class EvictionGrant(NamedTuple):
    """Leave to evict pods of a node that are of ``scope`` and do not tolerate ``taints``."""

    scope: EvictScope
    taints: frozenset[NodeTaint]
    reason: str


class Backstop:
    """The state of one term; a look is ``begin``, ``take`` for each node, and ``end``."""

    def __init__(self) -> None:
        self._clock = AttendedClock()
        self._tracker = FaultTracker()
        self._stop = DisruptionStop()
        self._turns = TokenBucket(TAINTS_PER_SECOND, 2)
        self._hears = False
        self._coming: dict[str, Examination] = {}
        self._examined: Mapping[str, Examination] = {}
        self._unhealthy: list[str] = []
        self._admitted: set[tuple[str, NodeTaint]] = set()

    @property
    def stop_reason(self) -> str:
        """Reason why no taint is set and no pod evicted, in a line; "" while that may be."""
        return self._stop.reason

    @property
    def _may_act(self) -> bool:
        return self._hears and not self.stop_reason

    @property
    def unhealthy(self) -> list[str]:
        """Nodes that had a fault for long enough at the last look."""
        return self._unhealthy

    def begin(self, now: float, *, hears: bool) -> None:
        """Begin a look at ``now``, of a steady clock; ``hears`` if the cluster is being heard."""
        self._clock.advance(now, hears=hears)
        self._hears = hears
        self._coming = {}

    def take(self, observed: NodeObservation) -> None:
        """Take in what is known of one node."""
        self._coming[observed.name] = self._tracker.examine(observed, self._clock.seconds)

    def end(self, present: NodeTaints) -> NodeTaints:
        """The taints that are asked for now; ``present`` are ours that nodes have."""
        held = {name: _ours(taints) for name, taints in present.items()}
        if not self._hears:
            return held
        self._examined = self._coming
        self._unhealthy = [
            name
            for name, seen in self._examined.items()
            if any(fault.is_due for fault in seen.faults)
        ]
        self._tracker.keep(self._examined)
        self._stop.observe(self._examined.values(), self._clock.seconds)
        asked = {
            name: taints
            for name, seen in self._examined.items()
            if (taints := self._due(name, seen.faults, held.get(name, _NONE)))
        }
        self._admitted = {(name, taint) for name, taints in asked.items() for taint in taints}
        return asked

    def grant(self, node: str, present: frozenset[NodeTaint]) -> EvictionGrant | None:
        """Leave to evict pods of a node, which has ``present`` of our taints at this moment.

        Only for what this leader has seen for long enough itself, and whose taint keeps the pods
        from coming back.
        """
        seen = self._examined.get(node)
        if seen is None or not self._may_act:
            return None
        due = [
            fault
            for fault in seen.faults
            if fault.age >= fault.limit
            and fault.rule.evict is not EvictScope.NONE
            and fault.taint in present
        ]
        if not due:
            return None
        scopes = {fault.rule.evict for fault in due}
        return EvictionGrant(
            EvictScope.ALL if EvictScope.ALL in scopes else EvictScope.BE,
            frozenset(fault.taint for fault in due),
            ", ".join(_plain(fault.cause) for fault in due),
        )

    def bars(self, taint: NodeTaint) -> bool:
        """True of our own kind while too many nodes are unhealthy, or nothing is heard."""
        return _is_own(taint) and not self._may_act

    def decisions(self, node: str, present: frozenset[NodeTaint]) -> tuple[Decision, ...]:
        """A node's faults and what is done about them, for people."""
        seen = self._examined.get(node)
        if seen is None:
            return ()
        return tuple(self._decision(node, fault, present) for fault in seen.faults)

    def reason(self, node: str, taint: NodeTaint) -> str:
        """Reason why a node has a taint of ours, or no longer has it."""
        if not _is_own(taint):
            return ""
        seen = self._examined.get(node)
        for fault in seen.faults if seen else ():
            if fault.taint == taint:
                return f"{_plain(fault.cause)} for {fault.age:.0f} s"
        return f"no longer {_plain(taint.name.removeprefix(OWN_PREFIX))}"

    def _due(
        self, name: str, faults: tuple[NodeFault, ...], held: frozenset[NodeTaint]
    ) -> frozenset[NodeTaint]:
        due = (fault.taint for fault in faults if fault.is_due)
        return frozenset(taint for taint in due if taint in held or self._admits(name, taint))

    def _admits(self, name: str, taint: NodeTaint) -> bool:
        if (name, taint) in self._admitted:
            return True
        return not self.stop_reason and self._turns.allow(self._clock.seconds)

    def _decision(self, node: str, fault: NodeFault, present: frozenset[NodeTaint]) -> Decision:
        if self.stop_reason and not fault.is_held:
            outcome = f"{_plain(fault.cause)}; nothing is done: too many nodes are unhealthy"
        elif fault.taint in present:
            grant = self.grant(node, present)
            does = f", evicts {_WHOM[grant.scope]}" if grant else ""
            stopped = ", evicts nothing: too many nodes are unhealthy" if self.stop_reason else ""
            outcome = f"{_plain(fault.cause)}; tainted {fault.rule.effect}{does}{stopped}"
        elif fault.is_due:
            outcome = f"{_plain(fault.cause)}; waits for its turn to be tainted"
        else:
            outcome = f"{_plain(fault.cause)}; not for long enough yet"
        given = [Term("seen for", fault.age, "s"), Term("limit", fault.limit, "s")]
        if self.stop_reason:
            given.append(Term("stop", self.stop_reason))
        return Decision(outcome, given=tuple(given), aspect=fault.cause)


_WHOM = {EvictScope.BE: "best-effort pods", EvictScope.ALL: "pods"}


def _is_own(taint: NodeTaint) -> bool:
    return taint.name.startswith(OWN_PREFIX)


def _ours(taints: frozenset[NodeTaint]) -> frozenset[NodeTaint]:
    return frozenset(taint for taint in taints if _is_own(taint))


def _plain(cause: str) -> str:
    return "koordlet is silent" if cause == SILENT else f"condition {cause}"
