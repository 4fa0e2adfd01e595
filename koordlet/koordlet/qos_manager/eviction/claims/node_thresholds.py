"""Thresholds of our own: signals of the node, how far past a threshold they are. No IO.

As in the kubelet, ``memory.available`` is met below its threshold; all others above. What
is to be freed::

    memory.available   threshold + capacity × free / 100 − available
    cpu.usage          used − capacity × (threshold − free) / 100
    *.pressure         one pod: how much would help is unknown

A pod frees what it uses. Pressure is the kernel's own average (PSI) of the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta

from koordlet.qos_manager.core.strategy import StrategyView, Term, shown
from koordlet.qos_manager.eviction.claims import usage
from koordlet.qos_manager.eviction.claims.ranking import ReleaseOfPod

PSI_SECONDS = 30.0
"""Greatest age of a value of pressure: it is read each 10 s where nothing else is set."""


class NodeSignal(StrEnum):
    """Observed signal; the kubelet's and Katalyst's words."""

    MEMORY_AVAILABLE = "memory.available"
    CPU_USAGE = "cpu.usage"
    MEMORY_PRESSURE = "memory.pressure"
    CPU_PRESSURE = "cpu.pressure"
    IO_PRESSURE = "io.pressure"


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


_PSI_WORDS = {
    NodeSignal.MEMORY_PRESSURE: "mem",
    NodeSignal.CPU_PRESSURE: "cpu",
    NodeSignal.IO_PRESSURE: "io",
}


@dataclass(frozen=True, slots=True)
class NodeThreshold:
    """One threshold, soft unless it is ``hard``.

    Raises:
        ValueError: the signal has no such threshold, or another operator.
    """

    signal: NodeSignal
    """Observed signal."""
    percent: Annotated[float, Meta(gt=0, le=100)] | None = None
    """Of the node's memory or CPUs, or of the time (pressure)."""
    quantity: Annotated[int, Meta(ge=1)] | None = None
    """Instead of ``percent``: bytes, of ``memory.available`` alone."""
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
        of_memory = self.signal is NodeSignal.MEMORY_AVAILABLE
        if (self.percent is None) == (self.quantity is None):
            raise ValueError(f"{self.signal} wants one of percent and quantity")
        if self.quantity is not None and not of_memory:
            raise ValueError(f"{self.signal} has its threshold in percent, not as a quantity")
        if self.operator not in (None, self.side):
            raise ValueError(f"{self.signal} is past its threshold when it is {self.side}")

    @property
    def side(self) -> ThresholdOperator:
        """Side of the threshold on which the signal is past it."""
        less = self.signal is NodeSignal.MEMORY_AVAILABLE
        return ThresholdOperator.LESS if less else ThresholdOperator.GREATER

    @property
    def measure(self) -> usage.UsageMeasure | None:
        """Usage of pods for this signal; ``None`` where it is not measured."""
        return _MEASURES.get(self.signal)

    @property
    def of_pressure(self) -> bool:
        """True if it is a signal of pressure."""
        return self.signal in _PSI_WORDS

    @property
    def settles_seconds(self) -> float:
        """Time for which the signal still shows the usage of a pod that is gone."""
        if self.of_pressure:
            return float(self.average.removeprefix("avg"))
        return self.window_seconds if self.signal is NodeSignal.CPU_USAGE else 0.0

    def __str__(self) -> str:
        """For people: "soft memory.available < 10 %"."""
        sign = "<" if self.side is ThresholdOperator.LESS else ">"
        at = shown(self.percent, "%") if self.quantity is None else shown(self.quantity, "bytes")
        which = f" {self.average} {self.degree}" if self.of_pressure else ""
        return f"{'hard' if self.hard else 'soft'} {self.signal}{which} {sign} {at}"


_MEASURES = {
    NodeSignal.MEMORY_AVAILABLE: usage.MEMORY,
    NodeSignal.MEMORY_PRESSURE: usage.MEMORY,
    NodeSignal.CPU_USAGE: usage.CPU,
    NodeSignal.CPU_PRESSURE: usage.CPU,
}


class SignalReading(NamedTuple):
    """Value of a signal; ``need`` is 0 while it is not past its threshold.

    ``resource`` and ``unit`` are those of the need.
    """

    need: float
    resource: str
    unit: str
    formula: str
    given: tuple[Term, ...]


def observe(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    """Read the signal of a threshold; ``None`` where it is not known."""
    if threshold.of_pressure:
        return _pressure(view, threshold)
    if threshold.signal is NodeSignal.CPU_USAGE:
        return _cpu_usage(view, threshold)
    return _memory_available(view, threshold)


def releases(view: StrategyView, threshold: NodeThreshold) -> ReleaseOfPod:
    """Return the function of each pod's release, in the unit of the need."""
    if threshold.of_pressure or threshold.measure is None:
        return lambda pod: 1.0
    return usage.used_by(view, threshold.measure)


def weight(view: StrategyView, threshold: NodeThreshold) -> ReleaseOfPod:
    """Return the function that orders pods of the same priority; ``None`` of all if unmeasured."""
    return usage.used_by(view, threshold.measure) if threshold.measure else lambda pod: None


def _memory_available(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    capacity = usage.capacity(view, usage.MEMORY)
    used = usage.node_use(view, usage.MEMORY)
    if capacity is None or used is None:
        return None
    available = max(capacity - used, 0.0)
    limit = threshold.quantity or capacity * (threshold.percent or 0.0) / 100
    wanted = limit + capacity * threshold.free_percent / 100 - available
    return SignalReading(
        wanted if available < limit else 0.0,
        "memory",
        "bytes",
        "need = threshold + capacity × free / 100 − available where available < threshold else 0",
        (
            Term("threshold", limit, "bytes"),
            Term("capacity", capacity, "bytes"),
            Term("free", threshold.free_percent, "%"),
            Term("available", available, "bytes"),
        ),
    )


def _cpu_usage(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    capacity = usage.capacity(view, usage.CPU)
    used = usage.node_use(view, usage.CPU, threshold.window_seconds)
    percent = threshold.percent or 0.0
    if capacity is None or used is None:
        return None
    wanted = used - capacity * max(percent - threshold.free_percent, 0.0) / 100
    return SignalReading(
        wanted if 100 * used > percent * capacity else 0.0,
        "cpu",
        "cores",
        "need = used − capacity × max(threshold − free, 0) / 100"
        " where 100 × used > capacity × threshold else 0",
        (
            Term("used", used, "cores"),
            Term("capacity", capacity, "cores"),
            Term("threshold", percent, "%"),
            Term("free", threshold.free_percent, "%"),
        ),
    )


def _pressure(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    labels = _PSI_WORDS[threshold.signal], threshold.average.value, threshold.degree.value
    found = view.history.windows("node_psi", PSI_SECONDS).get(labels)
    if found is None or not found.points:
        return None
    percent = threshold.percent or 0.0
    return SignalReading(
        1.0 if found.last > percent else 0.0,
        threshold.signal.value,
        "pods",
        "need = 1 where pressure > threshold else 0",
        (Term("pressure", found.last, "%"), Term("threshold", percent, "%")),
    )
