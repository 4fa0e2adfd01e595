"""While latency-sensitive pods wait for CPU, best-effort pods get less than the threshold leaves.

A threshold says how full a node may be; it does not say whether anybody suffers. This measures
that (``suppression.ls_pressure``) and moves an upper bound for best-effort pods' CPU until it is
near a target (``suppression.feedback``): down fast, up again slowly. The bound is the
signal ``be_cpu_cores``, which the strategy ``cpu_suppress`` obeys; nothing is written here. Where
nothing is measured there is no bound. Pressure needs the gate PSICollector, cgroup v2 and PSI.

Pods that need more cycles per instruction than usual (signal ``cpi_outlier`` of the strategy
``interference``) suffer in caches and memory, whether they wait or not: they count as if
they waited for a multiple of the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from koord_model.node_slo import NodeSLO
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Decision, Plan, StrategySignal, StrategyView, Term
from koordlet.qos_manager.strategies.pressure_suppress.feedback import (
    MOST_SECONDS,
    FeedbackState,
    FeedbackTuning,
    error_of,
    step,
)
from koordlet.qos_manager.strategies.pressure_suppress.ls_pressure import LSPressure, waiting
from koordlet.qos_manager.suppression.be_cpus import LEAST_CPUS

GATE = "PressureSuppress"
# One step for each new measurement: more often would be steps on the same number.
INTERVAL = "psi_collector_interval"

_INTERFERENCE, _OUTLIER = "interference", "cpi_outlier"
_FORMULA = (
    "off = (target − waiting) / target; "
    "e = max(off − max(min(off, deadband / 100), −deadband / 100), −4); "
    "step = proportional / 100 × (e − e before) + integral / 100 × e × seconds; "
    "change = capacity × max(min(step, rise / 100 × seconds), −fall / 100 × seconds); "
    "from = min(bound before, in force) where change < 0 else bound before; "
    "bound = min(max(from + change, least), capacity)"
)


@dataclass(frozen=True)
class Settings:
    """Target of the pressure, and the speed."""

    enable: bool = False
    """True if best-effort pods are held down at all (as ``cpu_suppress``)."""
    target_percent: Annotated[float, Meta(gt=0, le=100)] = 10
    """Of the time: how much latency-sensitive pods may wait for CPU."""
    deadband_percent: Annotated[float, Meta(ge=0, lt=100)] = 30
    """Of the target: so much more or less moves nothing."""
    min_percent: Annotated[float, Meta(ge=0, le=100)] = 0
    """Of the node's CPUs: the bound is never below this, nor below 2 CPUs."""
    proportional_percent: Annotated[float, Meta(ge=0, le=100)] = 1
    """Of the node's CPUs: how much the bound moves when the error changes by the target."""
    integral_percent: Annotated[float, Meta(gt=0, le=100)] = 0.2
    """Of the node's CPUs: how much it moves in a second while the error is the target."""
    rise_percent: Annotated[float, Meta(gt=0, le=100)] = 0.5
    """Of the node's CPUs: how much it rises in a second at most."""
    fall_percent: Annotated[float, Meta(gt=0, le=100)] = 2
    """Of the node's CPUs: how much it falls in a second at most."""
    window_seconds: Annotated[float, Meta(gt=0, le=600)] = 30
    """Older measurements of pressure do not count."""
    outlier_factor: Annotated[float, Meta(ge=0, le=100)] = 2
    """Of the target: what a pod counts for at least whose cycles per instruction are an outlier
    (gate InterferenceDetection); 0 for nothing."""
    throttled_percent: Annotated[float, Meta(ge=0, le=100)] = 10
    """Of its periods: a pod that its own limit throttles more often is left out."""


def settings(slo: NodeSLO) -> Settings:
    """On as far as best-effort pods are to be held down, with the same floor."""
    asked = slo.threshold
    return Settings(asked.enable, min_percent=asked.cpu_suppress_min or 0)


class _Memory(NamedTuple):
    """The controller, and when it last took a step by the steady clock."""

    state: FeedbackState
    steady: float


_OFF = Plan(
    decisions=(Decision("best-effort pods are not held down: the NodeSLO does not enable it"),)
)


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The bound, as far as anything is measured."""
    if not settings.enable:
        return _OFF
    if not view.cpus:
        return _unbound("the node's CPUs are not known")
    found = waiting(
        view,
        settings.window_seconds,
        settings.throttled_percent / 100,
        _outliers(view, settings.target_percent * settings.outlier_factor),
    )
    if found is None:
        return _unbound("of no latency-sensitive pod it is known how much it waits for CPU")
    capacity = float(len(view.cpus))
    low = min(max(capacity * settings.min_percent / 100, float(LEAST_CPUS)), capacity)
    error = error_of(found.percent, settings.target_percent, settings.deadband_percent / 100)
    before = (
        memory
        if isinstance(memory, _Memory)
        else _Memory(FeedbackState(capacity, error), view.steady)
    )
    seconds = view.steady - before.steady
    in_force = _in_force(view)
    after = step(before.state, error, seconds, _tuning(settings), low, capacity, in_force)
    seconds = min(max(seconds, 0.0), MOST_SECONDS)
    in_force = before.state.bound if in_force is None else in_force
    given = (
        Term("seconds", seconds, "s"),
        Term("rise", settings.rise_percent, "% a second"),
        Term("fall", settings.fall_percent, "% a second"),
        Term("in force", in_force, "cores"),
        Term("least", low, "cores"),
    )
    decision = _decision(settings, found, capacity, before.state, after, given)
    signals = (
        StrategySignal("be_cpu_cores", after.bound),
        StrategySignal("ls_waiting_percent", found.percent),
    )
    return Plan(decisions=(decision,), signals=signals, memory=_Memory(after, view.steady))


def _unbound(reason: str) -> Plan:
    return Plan(decisions=(Decision(f"no bound: {reason}"),))


def _outliers(view: StrategyView, percent: float) -> Mapping[str, float]:
    """Return the least pressure of pods that need more cycles than usual, by name."""
    named = view.signals.get(_INTERFERENCE, ())
    return {signal.pod: percent for signal in named if signal.name == _OUTLIER} if percent else {}


def _in_force(view: StrategyView) -> float | None:
    """Return the present limit of best-effort pods, in cores."""
    found = view.latest.value("node_be", "cpu", "real-limit")
    return None if found is None else found / 1000


def _tuning(settings: Settings) -> FeedbackTuning:
    return FeedbackTuning(
        settings.proportional_percent / 100,
        settings.integral_percent / 100,
        settings.rise_percent / 100,
        settings.fall_percent / 100,
    )


def _decision(
    settings: Settings,
    found: LSPressure,
    capacity: float,
    before: FeedbackState,
    after: FeedbackState,
    given: tuple[Term, ...],
) -> Decision:
    return Decision(
        _outcome(after, capacity),
        _FORMULA,
        (
            Term("target", settings.target_percent, "%"),
            Term("waiting", found.percent, "%"),
            Term("deadband", settings.deadband_percent, "% of the target"),
            Term("bound before", before.bound, "cores"),
            Term("capacity", capacity, "cores"),
            Term("proportional", settings.proportional_percent, "%"),
            Term("e", after.error),
            Term("e before", before.error),
            Term("integral", settings.integral_percent, "% a second"),
            *given,
            Term("bound", after.bound, "cores"),
            Term("pods", found.pods),
            Term("throttled pods left out", found.throttled),
            Term("worst", f"{found.worst} {found.worst_percent:.3g} %"),
        ),
    )


def _outcome(after: FeedbackState, capacity: float) -> str:
    """One of a few lines: the numbers beside it move with every step."""
    if after.error < 0:
        return "latency-sensitive pods wait for CPU too much: best-effort pods get less"
    if after.bound >= capacity:
        return "latency-sensitive pods have CPU enough: no bound for best-effort pods"
    if after.error > 0:
        return "latency-sensitive pods have CPU enough: best-effort pods get more again"
    return "latency-sensitive pods wait for CPU as much as they may: the bound stays"
