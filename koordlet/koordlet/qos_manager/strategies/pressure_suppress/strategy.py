"""While latency-sensitive pods fare worse than they may, best-effort pods get less CPU.

A threshold says how full a node may be; it does not say whether anybody suffers. This measures
that, by indicators (``indicators``) of groups of pods (``group_reading``), each of which has a
target. For each indicator of each group a level moves until what is measured is near the target
(``feedback``): down fast, up again slowly. The least bound that follows is advice for the strategy
``cpu_suppress``; nothing is written here. Where nothing is measured there is no bound.

A service's level is of the whole node, and what the others use of it best-effort pods do not get:
so their bound follows the load of services before anybody has waited. The level of pods without
targets of their own is the bound itself.

Without services and annotations there is one group, of all latency-sensitive pods, and one
indicator, pressure, which needs the gate PSICollector, cgroup v2 and PSI.

Pods that need more cycles per instruction than usual (signal ``cpi_outlier`` of the strategy
``interference``) suffer in caches and memory, whether they wait or not: they count as if
they waited for a multiple of the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from koord_model.node_slo import NodeSLO
from koord_model.service_targets import Indicator, ServiceTargets
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    Decision,
    Plan,
    PodView,
    StrategySignal,
    StrategyView,
    Term,
)
from koordlet.qos_manager.strategies.pressure_suppress import indicators
from koordlet.qos_manager.strategies.pressure_suppress.feedback import (
    MOST_SECONDS,
    FeedbackState,
    FeedbackTuning,
    error_of,
    step,
)
from koordlet.qos_manager.strategies.pressure_suppress.group_reading import (
    REST,
    GroupReading,
    GroupTarget,
    measure,
    pods_by_target,
)
from koordlet.qos_manager.suppression.be_advice import advice
from koordlet.qos_manager.suppression.be_cpus import LEAST_CPUS

GATE = "PressureSuppress"
# One step for each new measurement: more often would be steps on the same number.
INTERVAL = "psi_collector_interval"

_INTERFERENCE, _OUTLIER = "interference", "cpi_outlier"
_MOST_SHOWN = 8
_FORMULA = (
    "off = (aim − measured) / aim / scale; "
    "e = min(max(off − max(min(off, deadband / 100), −deadband / 100), −4), 1); "
    "step = proportional / 100 × (e − e before) + integral / 100 × e × seconds; "
    "change = capacity × max(min(step, rise / 100 × seconds), −fall / 100 × seconds); "
    "from = min(level before, in force + others) where change < 0 else level before; "
    "level = min(max(from + change, least), capacity); "
    "bound = max(level − others, least)"
)


@dataclass(frozen=True)
class Settings:
    """Targets, and the speed."""

    enable: bool = False
    """True if best-effort pods are held down at all (as ``cpu_suppress``)."""
    target_percent: Annotated[float, Meta(gt=0, le=100)] = 10
    """Of the time: how much latency-sensitive pods without targets of their own may wait for
    CPU (psi)."""
    deadband_percent: Annotated[float, Meta(ge=0, lt=100)] = 30
    """Of the aim times the indicator's scale: so much more or less moves nothing. The aim is
    ``target_percent``; of a service it lies so much below the target."""
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
    """Older measurements do not count (cpi: 150 s)."""
    outlier_factor: Annotated[float, Meta(ge=0, le=100)] = 2
    """Of the target: what a pod counts for at least, as waiting, whose cycles per instruction are
    an outlier (gate InterferenceDetection); 0 for nothing."""
    throttled_percent: Annotated[float, Meta(ge=0, le=100)] = 10
    """Of its periods: how much a pod waits does not count if its own limit throttles it more
    often."""
    services: tuple[ServiceTargets, ...] = ()
    """Targets of services; a pod belongs to the first that selects it, unless its annotation
    names others."""


def settings(slo: NodeSLO) -> Settings:
    """On as far as best-effort pods are to be held down, with the same floor."""
    asked = slo.threshold
    return Settings(asked.enable, min_percent=asked.cpu_suppress_min or 0)


class _Memory(NamedTuple):
    """The controllers, and when they last took a step by the steady clock."""

    states: Mapping[GroupTarget, FeedbackState]
    steady: float


class _Node(NamedTuple):
    """Inputs of a round that all controllers share; cores and seconds.

    ``others`` is what the node uses without best-effort pods.
    """

    capacity: float
    least: float
    seconds: float
    in_force: float | None
    others: float | None

    def others_of(self, target: GroupTarget) -> float:
        """Return the part of a target's level that is not for best-effort pods."""
        return self.others or 0.0 if target.group else 0.0

    def bound(self, target: GroupTarget, state: FeedbackState) -> float:
        """Return the bound of best-effort pods."""
        return max(state.bound - self.others_of(target), self.least)


_OFF = Plan(
    decisions=(Decision("best-effort pods are not held down: the NodeSLO does not enable it"),)
)


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The least of the bounds, as far as anything is measured."""
    if not settings.enable:
        return _OFF
    if not view.cpus:
        return Plan(decisions=(Decision("no bound: the node's CPUs are not known"),))
    rest = GroupTarget(REST, Indicator.PSI, float(settings.target_percent))
    targets, notes = pods_by_target(view, settings.services, rest)
    before = memory if isinstance(memory, _Memory) else _Memory({}, view.steady)
    node = _node(view, settings, before)
    found, missing = {}, []
    for target, reading in _readings(view, settings, targets):
        if reading is None or (target.group and node.others is None):
            missing.append(_unmeasured(target))
        else:
            found[target] = reading
    if not found:
        return Plan(decisions=(*missing, *notes))
    states, decisions = {}, []
    for target, reading in found.items():
        states[target], decision = _step(target, reading, before, node, settings)
        decisions.append(decision)
    bounds = {target: node.bound(target, state) for target, state in states.items()}
    signals = [advice(min(bounds.values()))]
    if rest in found:
        signals.append(StrategySignal("ls_waiting_percent", found[rest].value))
    return Plan(
        decisions=(*_binding(bounds), *decisions, *missing, *notes),
        signals=tuple(signals),
        memory=_Memory(states, view.steady),
    )


def _readings(
    view: StrategyView, settings: Settings, targets: Mapping[GroupTarget, list[PodView]]
) -> Iterator[tuple[GroupTarget, GroupReading | None]]:
    """Every target, with what is measured of its pods; each indicator is read once."""
    values: dict[Indicator, Mapping[str, float]] = {}
    for target, pods in targets.items():
        row = indicators.ROWS[target.indicator]
        if target.indicator not in values:
            values[target.indicator] = indicators.values(row, view, settings.window_seconds)
        found = measure(
            view,
            pods,
            values[target.indicator],
            settings.throttled_percent / 100 if row.by_quota else None,
            _outliers(view, target.value * settings.outlier_factor) if row.by_quota else {},
        )
        yield target, found


def _outliers(view: StrategyView, value: float) -> Mapping[str, float]:
    """Return the least value of pods that need more cycles than usual, by name."""
    named = view.signals.get(_INTERFERENCE, ())
    return {signal.pod: value for signal in named if signal.name == _OUTLIER} if value else {}


def _node(view: StrategyView, settings: Settings, before: _Memory) -> _Node:
    capacity = float(len(view.cpus))
    least = min(max(capacity * settings.min_percent / 100, float(LEAST_CPUS)), capacity)
    seconds = min(max(view.steady - before.steady, 0.0), MOST_SECONDS)
    limit = view.latest.value("node_be", "cpu", "real-limit")
    used, best = view.latest.value("node_cpu_usage"), view.latest.value("node_be", "cpu", "usage")
    others = None if used is None or best is None else max(used - best / 1000, 0.0)
    return _Node(capacity, least, seconds, None if limit is None else limit / 1000, others)


def _step(
    target: GroupTarget, reading: GroupReading, memory: _Memory, node: _Node, settings: Settings
) -> tuple[FeedbackState, Decision]:
    """One controller's next state; a new one starts at the node's capacity."""
    scale = indicators.ROWS[target.indicator].scale
    deadband = settings.deadband_percent / 100
    error = error_of(reading.value, _aim(target, settings), deadband, scale)
    before = memory.states.get(target, FeedbackState(node.capacity, error))
    in_force = None if node.in_force is None else node.in_force + node.others_of(target)
    after = step(
        before, error, node.seconds, _tuning(target, settings), node.least, node.capacity, in_force
    )
    return after, _decision(target, reading, before, after, node, settings)


def _aim(target: GroupTarget, settings: Settings) -> float:
    """Return the middle of the deadband: its upper end is what a service may have at most."""
    if target.group == REST:
        return target.value
    scale = indicators.ROWS[target.indicator].scale
    return target.value / (1 + settings.deadband_percent / 100 * scale)


def _tuning(target: GroupTarget, settings: Settings) -> FeedbackTuning:
    return FeedbackTuning(
        settings.proportional_percent * indicators.ROWS[target.indicator].proportional / 100,
        settings.integral_percent / 100,
        settings.rise_percent / 100,
        settings.fall_percent / 100,
    )


# ---- what is said of it


def _unmeasured(target: GroupTarget) -> Decision:
    if target.group:
        return Decision(f"no bound by {target}: it is not measured", aspect=_aspect(target))
    return Decision("no bound: of no latency-sensitive pod it is known how much it waits for CPU")


def _aspect(target: GroupTarget) -> str:
    """Return the aspect of a controller's decision; the one that is always there needs none."""
    return str(target) if target.group else ""


def _binding(bounds: Mapping[GroupTarget, float]) -> tuple[Decision, ...]:
    """Name the group and the indicator with the least bound, where there are several."""
    if len(bounds) < 2:
        return ()
    ranked = sorted(bounds, key=lambda target: (bounds[target], target))
    first = ranked[0]
    who = f"service {first.group}" if first.group else "pods without targets of their own"
    shown = [Term(str(target), bounds[target], "cores") for target in ranked[:_MOST_SHOWN]]
    formula = f"bound = min({', '.join(term.name for term in shown)})"
    given = (*shown, Term("bound", bounds[first], "cores"), Term("bounds", len(bounds)))
    return (
        Decision(
            f"the least bound is by {first.indicator} of {who}", formula, given, aspect="bound"
        ),
    )


def _decision(
    target: GroupTarget,
    reading: GroupReading,
    before: FeedbackState,
    after: FeedbackState,
    node: _Node,
    settings: Settings,
) -> Decision:
    row = indicators.ROWS[target.indicator]
    unit = f" {row.unit}" if row.unit else ""
    others = node.others_of(target)
    in_force = before.bound - others if node.in_force is None else node.in_force
    return Decision(
        _outcome(target, after, node.capacity),
        _FORMULA,
        (
            Term("aim", _aim(target, settings), row.unit),
            Term("measured", reading.value, row.unit),
            Term("scale", row.scale),
            Term("deadband", settings.deadband_percent, "% of aim × scale"),
            Term("level before", before.bound, "cores"),
            Term("capacity", node.capacity, "cores"),
            Term("proportional", 100 * _tuning(target, settings).proportional, "%"),
            Term("e", after.error),
            Term("e before", before.error),
            Term("integral", settings.integral_percent, "% a second"),
            Term("seconds", node.seconds, "s"),
            Term("rise", settings.rise_percent, "% a second"),
            Term("fall", settings.fall_percent, "% a second"),
            Term("in force", in_force, "cores"),
            Term("others", others, "cores"),
            Term("least", node.least, "cores"),
            Term("level", after.bound, "cores"),
            Term("bound", node.bound(target, after), "cores"),
            Term("target", target.value, row.unit),
            Term("pods", reading.pods),
            Term("throttled pods left out", reading.throttled),
            Term("worst", f"{reading.worst} {reading.worst_value:.3g}{unit}"),
        ),
        aspect=_aspect(target),
    )


_SUBJECTS = {
    Indicator.PSI: ("wait for CPU too much", "have CPU enough", "wait for CPU as much as they may"),
    Indicator.SCHED_WAIT: (
        "wait for CPU too long",
        "have CPU enough",
        "wait for CPU as long as they may",
    ),
    Indicator.CPI: (
        "need too many cycles per instruction",
        "need few cycles per instruction",
        "need as many cycles per instruction as they may",
    ),
    Indicator.USAGE: (
        "use too much of their CPU",
        "have CPU to spare",
        "use as much of their CPU as they may",
    ),
}


def _outcome(target: GroupTarget, after: FeedbackState, capacity: float) -> str:
    """One of a few lines: the numbers beside it move with every step."""
    bad, good, even = _SUBJECTS[target.indicator]
    pods = f"pods of {target.group}" if target.group else "latency-sensitive pods"
    if after.error < 0:
        return f"{pods} {bad}: best-effort pods get less"
    if after.bound >= capacity:
        return f"{pods} {good}: no bound for best-effort pods"
    if after.error > 0:
        return f"{pods} {good}: best-effort pods get more again"
    return f"{pods} {even}: the bound stays"
