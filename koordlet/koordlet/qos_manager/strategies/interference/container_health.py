"""Container health: the metrics that reveal interference. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from koordlet.qos_manager.core.strategy import StrategyView, WindowStats
from koordlet.qos_manager.strategies.interference.baseline import BaselineParameters
from koordlet.qos_manager.strategies.interference.detection import OutlierLimits
from koordlet.qos_manager.strategies.interference.suspicion import (
    CPU,
    DISK,
    MEMORY,
    NETWORK,
    ContendedResource,
    Uses,
    uses,
)

_USE_SECONDS = 10.0
_PSI_SECONDS = 30.0
_CPI_SECONDS = 150.0
_DELAY_SECONDS = 30.0

_PSI_HALF_LIFE = 360.0  # points: an hour
_CPI_HALF_LIFE = 120.0  # points: two hours
_DELAY_HALF_LIFE = 600.0  # points: an hour or so
_LEAST_PRESSURE = 2.0  # percent
_LEAST_CPI_SHARE = 0.07
_LEAST_DELAY_SPREAD = 0.25  # a factor of 1.28
_DELAY_OFFSET = 0.1  # of the floor

Key = tuple[str, str, str]
"""Pod UID, container id, a metric's name."""

Point = tuple[float, float]
"""A value, and when it was measured (seconds since the epoch)."""

Windows = Mapping[tuple[str, ...], WindowStats]
"""Windows of series by labels."""


class HealthMeasurements(NamedTuple):
    """Measurements: ``uses`` of pods, and windows of containers."""

    uses: Uses
    use: Windows
    cpi: Windows
    psi: Windows
    delays: Mapping[str, Windows]
    """By kind."""


class OwnLimit(NamedTuple):
    """A limit of the container's own that makes it run worse too.

    It does where the average of ``kind`` over ``seconds`` is ``least`` or more. That is shown as
    ``name``, in ``unit``, of which it has ``scale`` to one of its kind's.
    """

    kind: str
    seconds: float
    least: float
    cause: str
    name: str
    unit: str
    scale: float = 1.0


class HealthMetric(NamedTuple):
    """Metric of a container's health.

    ``suffers`` says to people what a victim does. ``read`` finds the newest point of pod UID and
    container id, ``None`` where there is none that says anything. ``suspected`` are the resources
    by whose use antagonists are looked for, one after the other. ``by_own_use`` is whether more CPU
    use of the pod's own raises it.
    """

    name: str
    suffers: str
    unit: str
    manner: BaselineParameters
    limits: OutlierLimits
    read: Callable[[HealthMeasurements, tuple[str, ...]], Point | None]
    suspected: tuple[ContendedResource, ...] = (CPU,)
    own: OwnLimit | None = None
    by_own_use: bool = False


_QUOTA = OwnLimit(
    "container_cpu_throttled",
    30.0,
    0.1,
    "its own CPU limit throttles it",
    "throttled",
    "%",
    100.0,
)
_MEMORY_LIMIT = OwnLimit(
    "container_memory_limited",
    15.0,
    0.2,
    "its own memory limit makes it reclaim memory",
    "limit reached",
    "1/s",
)


class _Delay(NamedTuple):
    """A metric that a collector of delays measures."""

    name: str
    kind: str
    suffers: str
    unit: str
    suspected: tuple[ContendedResource, ...]
    own: OwnLimit | None = None
    scale: float = 1.0


_DELAYS = (
    _Delay(
        "sched_wait",
        "container_cpu_sched_wait",
        "waits longer for CPU than usual",
        "ms/s",
        (CPU,),
        _QUOTA,
    ),
    _Delay(
        "memory_delay",
        "container_memory_delay",
        "waits longer for memory than usual",
        "ms/s",
        (MEMORY, DISK),
        _MEMORY_LIMIT,
    ),
    _Delay(
        "disk_wait",
        "container_disk_wait",
        "waits longer for its disk than usual",
        "ms",
        (DISK,),
    ),
    _Delay(
        "tcp_rtt",
        "container_tcp_rtt",
        "has slower connections than usual",
        "ms",
        (NETWORK,),
    ),
    _Delay(
        "tcp_retransmits",
        "container_tcp_retransmits",
        "sends more again on its connections than usual",
        "%",
        (NETWORK,),
        scale=100.0,
    ),
)


def measured(view: StrategyView) -> HealthMeasurements:
    """The windows that end now."""
    windows = view.history.windows
    cpi = windows("container_cpi", _CPI_SECONDS)
    return HealthMeasurements(
        uses(view.history),
        windows("container_cpu_usage", _USE_SECONDS) if cpi else {},
        cpi,
        windows("container_psi", _PSI_SECONDS),
        {delay.kind: windows(delay.kind, _DELAY_SECONDS) for delay in _DELAYS},
    )


def cpu_pressure(warm_up: int, limits: OutlierLimits) -> HealthMetric:
    """Tasks that wait for a CPU: PSI, some, over ten seconds; in percent."""
    manner = BaselineParameters(warm_up, _PSI_HALF_LIFE, least_spread=_LEAST_PRESSURE)
    return HealthMetric(
        "psi",
        "waits longer for CPU than usual",
        "%",
        manner,
        limits,
        _pressure,
        own=_QUOTA,
        by_own_use=True,
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


def delays(
    floors: Mapping[str, float], warm_up: int, limits: OutlierLimits
) -> Iterator[HealthMetric]:
    """The metrics that collectors of delays measure, with their ``floors`` by name."""
    for delay in _DELAYS:
        floor = floors[delay.name]
        # Without a floor there is still a least value that has a logarithm.
        offset = max(_DELAY_OFFSET * floor, 1e-3)
        manner = BaselineParameters(warm_up, _DELAY_HALF_LIFE, _LEAST_DELAY_SPREAD, offset=offset)
        yield HealthMetric(
            delay.name,
            delay.suffers,
            delay.unit,
            manner,
            limits._replace(floor=floor),
            _reader(delay),
            delay.suspected,
            delay.own,
        )


def _reader(
    delay: _Delay,
) -> Callable[[HealthMeasurements, tuple[str, ...]], Point | None]:
    def read(found: HealthMeasurements, labels: tuple[str, ...]) -> Point | None:
        window = found.delays[delay.kind].get(labels)
        return None if window is None else (window.last * delay.scale, window.last_at)

    return read


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
