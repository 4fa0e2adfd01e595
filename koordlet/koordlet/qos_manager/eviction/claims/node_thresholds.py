"""Thresholds of our own: a signal of the node, and from where on it is past. No IO.

``node_signals`` reads the signals. As in the kubelet, what is free is past below its threshold; all
others above.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta

from koordlet.qos_manager.core.strategy import shown


class NodeSignal(StrEnum):
    """Observed signal; the kubelet's and Katalyst's words."""

    MEMORY_AVAILABLE = "memory.available"
    CPU_USAGE = "cpu.usage"
    MEMORY_PRESSURE = "memory.pressure"
    CPU_PRESSURE = "cpu.pressure"
    IO_PRESSURE = "io.pressure"
    CLASS_MEMORY_PRESSURE = "class.memory.pressure"
    NUMA_MEMORY_FREE = "numa.memory.free"
    POD_RSS = "pod.rss"
    IMAGEFS_AVAILABLE = "imagefs.available"
    IMAGEFS_INODES_FREE = "imagefs.inodesFree"
    SYSTEM_LOAD = "system.load"


class ThresholdOperator(StrEnum):
    """Side of its threshold on which a signal is past it."""

    LESS = "LessThan"
    GREATER = "GreaterThan"


class PressureAverage(StrEnum):
    """The kernel's averages of pressure."""

    AVG10 = "avg10"
    AVG60 = "avg60"
    AVG300 = "avg300"


class PressureDegree(StrEnum):
    """Degree of pressure: some tasks wait, or all at once."""

    SOME = "some"
    FULL = "full"


class _SignalRule(NamedTuple):
    """Thresholds that a signal may have.

    ``less`` is whether it is past below. ``unit`` is that of a quantity, "" where it has none.
    ``optional`` is whether there is a threshold without either.
    """

    less: bool = False
    most_percent: float = 100.0
    unit: str = ""
    optional: bool = False


_LOAD_SECONDS = 60.0
"""Time constant of the kernel's load."""
_RULES = dict.fromkeys(NodeSignal, _SignalRule()) | {
    NodeSignal.MEMORY_AVAILABLE: _SignalRule(less=True, unit="bytes"),
    NodeSignal.NUMA_MEMORY_FREE: _SignalRule(less=True, unit="bytes", optional=True),
    NodeSignal.POD_RSS: _SignalRule(most_percent=1000.0, optional=True),
    NodeSignal.IMAGEFS_AVAILABLE: _SignalRule(less=True, unit="bytes"),
    NodeSignal.IMAGEFS_INODES_FREE: _SignalRule(less=True, unit="inodes"),
    NodeSignal.SYSTEM_LOAD: _SignalRule(most_percent=1000.0),
}


@dataclass(frozen=True, slots=True)
class NodeThreshold:
    """One threshold, soft unless it is ``hard``.

    Raises:
        ValueError: the signal has no such threshold, or another operator.
    """

    signal: NodeSignal
    """Observed signal."""
    percent: Annotated[float, Meta(gt=0, le=1000)] | None = None
    """Of the node's memory or CPUs, of the time (pressure), of a pod's request (``pod.rss``)."""
    quantity: Annotated[int, Meta(ge=1)] | None = None
    """Instead of ``percent``: bytes or inodes that are free."""
    operator: ThresholdOperator | None = None
    """The signal's own, whether it is written or not."""
    hard: bool = False
    """True if it is acted upon at once, without grace, notice and cool time."""
    grace_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Time above a soft threshold before pods go; they are warned at its start."""
    notice_seconds: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """Time for which a selected pod may stay after that, once it has been warned."""
    free_percent: Annotated[float, Meta(ge=0, le=100)] = 2.0
    """Of the node's memory or CPUs: how far back past the threshold is freed."""
    average: PressureAverage = PressureAverage.AVG60
    """Average of pressure that counts."""
    degree: PressureDegree = PressureDegree.SOME
    """Degree of pressure that counts."""
    window_seconds: Annotated[float, Meta(ge=1, le=3600)] = 10.0
    """Window over which ``cpu.usage`` is averaged."""

    def __post_init__(self) -> None:
        rule = _RULES[self.signal]
        given = (self.percent is not None) + (self.quantity is not None)
        if given > 1 or not (given or rule.optional):
            raise ValueError(f"{self.signal} wants one of percent and quantity")
        if self.quantity is not None and not rule.unit:
            raise ValueError(f"{self.signal} has its threshold in percent, not as a quantity")
        if (self.percent or 0.0) > rule.most_percent:
            raise ValueError(f"{self.signal} wants a percent <= {rule.most_percent:g}")
        if self.operator not in (None, self.side):
            raise ValueError(f"{self.signal} is past its threshold when it is {self.side}")

    @property
    def side(self) -> ThresholdOperator:
        """Side of the threshold on which the signal is past it."""
        return ThresholdOperator.LESS if _RULES[self.signal].less else ThresholdOperator.GREATER

    @property
    def of_pressure(self) -> bool:
        """True if it is a signal of pressure."""
        return self.signal.value.endswith(".pressure")

    @property
    def settles_seconds(self) -> float:
        """Time for which the signal still shows the usage of a pod that is gone."""
        if self.of_pressure:
            return float(self.average.removeprefix("avg"))
        if self.signal is NodeSignal.SYSTEM_LOAD:
            return _LOAD_SECONDS
        return self.window_seconds if self.signal is NodeSignal.CPU_USAGE else 0.0

    def __str__(self) -> str:
        """For people: "soft memory.available < 10 %"."""
        sign = "<" if self.side is ThresholdOperator.LESS else ">"
        at = "its own threshold"
        if self.percent is not None:
            at = shown(self.percent, "%")
        elif self.quantity is not None:
            at = shown(self.quantity, _RULES[self.signal].unit)
        which = f" {self.average} {self.degree}" if self.of_pressure else ""
        return f"{'hard' if self.hard else 'soft'} {self.signal}{which} {sign} {at}"
