"""Faults in koordlet's view of the node, and their times. No IO."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class FaultKind(StrEnum):
    """Kind of fault."""

    MISSING = "missing"  # metrics are not measured
    STUCK = "stuck"  # metrics are measured, and always the same
    CLOCK = "clock"  # the wall clock jumps by ``seconds``, and back at the end
    PODS_UNKNOWN = "pods-unknown"  # the list of pods is unknown; those known stay
    NO_SLO = "no-slo"  # there is no NodeSLO: defaults hold
    NO_NODE_INFO = "no-node-info"  # CPUs and memory of the node are not known
    RESTART = "restart"  # koordlet is restarted at ``start``: strategies forget


@dataclass(frozen=True, slots=True)
class Fault:
    """Something is wrong from ``start`` to ``end`` (seconds of the run).

    ``metrics`` are the kinds that it is about, with "*" for anything.
    """

    kind: FaultKind
    start: float
    end: float = math.inf
    metrics: str = "*"
    seconds: float = 0.0

    def holds(self, now: float) -> bool:
        """True if the fault is present now."""
        return self.start <= now < self.end


class Faults:
    """All faults of a run."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = faults
        self._now: list[Fault] = []

    def turn(self, now: float) -> None:
        """Let it be that second of the run."""
        self._now = [fault for fault in self._faults if fault.holds(now)] if self._faults else []

    def has(self, kind: FaultKind) -> bool:
        """True if there is a fault of a kind now."""
        return any(fault.kind is kind for fault in self._now)

    def starts(self, kind: FaultKind, now: float) -> bool:
        """True if a fault of a kind starts in this very second."""
        return any(
            fault.kind is kind and fault.start <= now < fault.start + 1 for fault in self._now
        )

    def of_metric(self, kind: FaultKind, metric: str) -> bool:
        """True if a metric is missing, or stuck."""
        return any(fault.kind is kind and fnmatchcase(metric, fault.metrics) for fault in self._now)

    @property
    def any_metrics(self) -> bool:
        """True if any metric is missing or stuck."""
        return self.has(FaultKind.MISSING) or self.has(FaultKind.STUCK)

    @property
    def clock(self) -> float:
        """Error of the wall clock in seconds."""
        return sum(fault.seconds for fault in self._now if fault.kind is FaultKind.CLOCK)
