"""Container health: the CPU metrics that reveal interference. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from koordlet.qos_manager.core.strategy import StrategyView, WindowStats
from koordlet.qos_manager.strategies.interference.baseline import BaselineParameters
from koordlet.qos_manager.strategies.interference.detection import OutlierLimits, Uses

_USE_SECONDS = 10.0
_PSI_SECONDS = 30.0
_CPI_SECONDS = 150.0

_PSI_HALF_LIFE = 360.0  # points: an hour
_CPI_HALF_LIFE = 120.0  # points: two hours
_LEAST_PRESSURE = 2.0  # percent
_LEAST_CPI_SHARE = 0.07

Key = tuple[str, str, str]
"""Pod UID, container id, a metric's name."""

Point = tuple[float, float]
"""A value, and when it was measured (seconds since the epoch)."""


class HealthMeasurements(NamedTuple):
    """Measurements: ``uses`` by pod, in cores, and windows of containers by labels."""

    uses: Uses
    use: Mapping[tuple[str, ...], WindowStats]
    cpi: Mapping[tuple[str, ...], WindowStats]
    psi: Mapping[tuple[str, ...], WindowStats]


class HealthMetric(NamedTuple):
    """Metric of a container's health.

    ``suffers`` says to people what a victim does. ``read`` finds the newest point of pod UID and
    container id, ``None`` where there is none that says anything. ``by_quota`` is whether the
    container's own CPU quota raises it too.
    """

    name: str
    suffers: str
    unit: str
    manner: BaselineParameters
    limits: OutlierLimits
    read: Callable[[HealthMeasurements, tuple[str, ...]], Point | None]
    by_quota: bool = False


def measured(view: StrategyView) -> HealthMeasurements:
    """The windows that end now."""
    windows = view.history.windows
    cpi = windows("container_cpi", _CPI_SECONDS)
    of_pods = windows("pod_cpu_usage", _USE_SECONDS)
    return HealthMeasurements(
        {labels[0]: of_pod.avg for labels, of_pod in of_pods.items()},
        windows("container_cpu_usage", _USE_SECONDS) if cpi else {},
        cpi,
        windows("container_psi", _PSI_SECONDS),
    )


def cpu_pressure(warm_up: int, limits: OutlierLimits) -> HealthMetric:
    """Tasks that wait for a CPU: PSI, some, over ten seconds; in percent."""
    manner = BaselineParameters(warm_up, _PSI_HALF_LIFE, least_spread=_LEAST_PRESSURE)
    return HealthMetric(
        "psi", "waits longer for CPU than usual", "%", manner, limits, _pressure, by_quota=True
    )


def cycles_per_instruction(least_cores: float, warm_up: int, limits: OutlierLimits) -> HealthMetric:
    """Cycles per instruction, of a container that uses ``least_cores`` or more."""

    def read(found: HealthMeasurements, labels: tuple[str, ...]) -> Point | None:
        use = found.use.get(labels)
        return _cpi(found, labels) if use is not None and use.avg >= least_cores else None

    manner = BaselineParameters(warm_up, _CPI_HALF_LIFE, least_share=_LEAST_CPI_SHARE)
    return HealthMetric(
        "cpi", "needs more cycles per instruction than usual", "", manner, limits, read
    )


def _pressure(found: HealthMeasurements, labels: tuple[str, ...]) -> Point | None:
    window = found.psi.get((*labels, "cpu", "avg10", "some"))
    return None if window is None else (window.last, window.last_at)


def _cpi(found: HealthMeasurements, labels: tuple[str, ...]) -> Point | None:
    cycles = found.cpi.get((*labels, "cycle"))
    instructions = found.cpi.get((*labels, "instruction"))
    if cycles is None or instructions is None or instructions.last <= 0:
        return None
    # Of two different windows they make no ratio.
    if cycles.last_at != instructions.last_at:
        return None
    return cycles.last / instructions.last, cycles.last_at
