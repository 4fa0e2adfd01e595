"""Part of a node that batch and mid pods get: ``colocation-config`` for one node. No IO.

Names, defaults and meaning are Koordinator's (apis/configuration, ``ColocationStrategy``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from koord_model.metric_policy import MemoryPolicy as MemoryPolicy

SETTLE_SECONDS = 15.0
"""Time that a node may take beyond its report interval: to start, or to find a new leader."""


class CalculatePolicy(StrEnum):
    """Amounts that high-priority pods withhold from batch pods."""

    USAGE = "usage"
    REQUEST = "request"
    MAX_USAGE_REQUEST = "maxUsageRequest"


class MidReclaimMode(StrEnum):
    """Calculation of mid resources; ``NONE`` is by prediction."""

    NONE = ""
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class Smoothing:
    """Movement of batch and mid amounts from offered to calculated; our own.

    In ``extensions.pykoord.smoothing`` of the strategy. ``fall_percent`` and ``rise_percent`` are
    the most, in percent of the node's capacity, by which an amount may fall or rise in one
    ``step_seconds``; 0 means unbounded, as in Koordinator. ``hold_seconds`` is how long a
    degraded node keeps its last amounts before it falls to zero.
    """

    fall_percent: int = 0
    rise_percent: int = 0
    step_seconds: int = 60
    hold_seconds: int = 0


@dataclass(frozen=True, slots=True)
class ColocationStrategy:
    """The strategy for one node; percentages are of the node's capacity.

    ``degrade_minutes`` is how old a NodeMetric may be. A node is written when an amount moves
    by more than ``diff_threshold`` (a fraction), or ``update_seconds`` after the last time.
    Thresholds of batch resources are ``None`` where there is none.
    """

    enable: bool = False
    metric_aggregate_seconds: int = 300
    metric_report_seconds: int = 60
    metric_aggregate_durations: tuple[str, ...] = ("5m", "10m", "30m")
    metric_memory_policy: MemoryPolicy = MemoryPolicy.WITHOUT_PAGE_CACHE
    cpu_reclaim_percent: int = 60
    cpu_policy: CalculatePolicy = CalculatePolicy.USAGE
    memory_reclaim_percent: int = 65
    memory_policy: CalculatePolicy = CalculatePolicy.USAGE
    degrade_minutes: int = 15
    update_seconds: int = 300
    diff_threshold: float = 0.1
    mid_mode: MidReclaimMode = MidReclaimMode.NONE
    mid_cpu_percent: int = 100
    mid_memory_percent: int = 100
    mid_unallocated_percent: int = 0
    mid_static_cpu_percent: int = 0
    mid_static_memory_percent: int = 0
    batch_cpu_percent: int | None = None
    batch_memory_percent: int | None = None
    smoothing: Smoothing = Smoothing()
    """Our own: how far amounts may move in one step."""
    source: str = field(default="defaults", compare=False)
    """Source of the strategy: the part of the ConfigMap, and the Node itself."""

    @property
    def degrade_seconds(self) -> float:
        """Greatest age of a NodeMetric: as configured, unless that is less than any gets."""
        configured = self.degrade_minutes * 60.0
        if configured < self.metric_report_seconds:
            return self.metric_report_seconds + SETTLE_SECONDS
        return configured

    @property
    def silent_seconds(self) -> float:
        """Time after which a node that reports in time has missed a report."""
        return 2 * self.metric_report_seconds + SETTLE_SECONDS


@dataclass(frozen=True, slots=True)
class ModelRatios:
    """Speed of a model over the reference CPU's, by enabled features; ``None`` if not set."""

    base: float | None = None
    hyper_threads: float | None = None
    turbo: float | None = None
    both: float | None = None


@dataclass(frozen=True, slots=True)
class CPUNormalization:
    """The strategy of ``cpu-normalization-config`` for one node; ``models`` by CPU model."""

    enable: bool = False
    default_ratio: float | None = None
    models: tuple[tuple[str, ModelRatios], ...] = ()


@dataclass(frozen=True, slots=True)
class RealtimeOvercommit:
    """Bounds of ratios by what a node's pods use; our own, defaults and formula are Katalyst's.

    In ``extensions.pykoord.realtime`` of ``resource-amplification-config``. Targets are percent of
    a node's allocatable that its pods may use, loads the least percent of their requests that
    pods to come are taken to use. ``step_percent`` is how far a ratio may move in a minute, in
    percent of the allocatable.
    """

    enable: bool = False
    cpu_target_percent: int = 60
    memory_target_percent: int = 80
    cpu_load_percent: int = 40
    memory_load_percent: int = 80
    step_percent: int = 10


@dataclass(frozen=True, slots=True)
class ResourceAmplification:
    """The strategy of ``resource-amplification-config`` for one node: ratios by resource name."""

    enable: bool = False
    ratios: tuple[tuple[str, float], ...] = ()
    realtime: RealtimeOvercommit = RealtimeOvercommit()


@dataclass(frozen=True, slots=True)
class NodeStrategies:
    """The configuration for one node, by all rules of precedence.

    ``ignored`` has a line for each annotation or label of the node that cannot be used.
    """

    colocation: ColocationStrategy
    normalization: CPUNormalization
    amplification: ResourceAmplification
    ignored: tuple[str, ...] = ()
