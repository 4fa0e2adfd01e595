"""Arguments of Koordinator's LoadAwareScheduling, with its defaults and what it allows. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord_model import duration
from koord_model.keys import CPU, MEMORY
from msgspec.structs import force_setattr

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Int64, Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.plugins.load_aware.settings import (
    AggregatedThresholds,
    LoadSettings,
    UsageWindow,
    Vector,
)

_ByResource = dict[str, Int64]

_AGGREGATIONS = ("avg", "p50", "p90", "p95", "p99")
_ESTIMATOR = "defaultEstimator"
_EXPIRATION_SECONDS = 180
_WEIGHTS = {CPU: 1, MEMORY: 1}
_THRESHOLDS = {CPU: 65, MEMORY: 95}
_FACTORS = {CPU: 85, MEMORY: 70}


class LoadAwareAggregatedArgs(Strict, frozen=True):
    """Aggregated usage for filters and for scores; "" for a type: none."""

    usage_thresholds: _ByResource | None = None
    usage_aggregation_type: str = ""
    usage_aggregated_duration: str | None = None
    score_aggregation_type: str = ""
    score_aggregated_duration: str | None = None

    def problems(self, path: str) -> Iterator[str]:
        """Return Koordinator's errors in it."""
        yield from _outside(self.usage_thresholds, f"{path}.usageThresholds", 0, 100)
        for name, aggregation, time in (
            ("usage", self.usage_aggregation_type, self.usage_aggregated_duration),
            ("score", self.score_aggregation_type, self.score_aggregated_duration),
        ):
            if aggregation not in ("", *_AGGREGATIONS):
                expected = f"one of {', '.join(_AGGREGATIONS)}"
                yield problem(f"{path}.{name}AggregationType", aggregation, expected)
            try:
                _window(aggregation, time)
            except ValueError:
                expected = "a duration like 5m or 1h30m"
                yield problem(f"{path}.{name}AggregatedDuration", time, expected)

    def thresholds(self, resources: tuple[str, ...]) -> AggregatedThresholds | None:
        """Those of the filter, if they are complete."""
        if not self.usage_thresholds or not self.usage_aggregation_type:
            return None
        window = _window(self.usage_aggregation_type, self.usage_aggregated_duration)
        return AggregatedThresholds(_vector(self.usage_thresholds, resources), window)

    def score_window(self) -> UsageWindow | None:
        """The usage that counts for scores."""
        if not self.score_aggregation_type:
            return None
        return _window(self.score_aggregation_type, self.score_aggregated_duration)


class LoadAwareSchedulingArgs(PluginArgs, frozen=True):
    """Arguments of LoadAwareScheduling."""

    filter_expired_node_metrics: bool | None = None
    node_metric_expiration_seconds: Int64 | None = None
    enable_schedule_when_node_metrics_expired: bool | None = None
    resource_weights: _ByResource | None = None
    dominant_resource_weight: Int64 = 0
    usage_thresholds: _ByResource | None = None
    prod_usage_thresholds: _ByResource | None = None
    prod_usage_include_sys: bool = False
    score_according_prod_usage: bool | None = None
    estimator: str = ""
    estimated_scaling_factors: _ByResource | None = None
    estimated_seconds_after_pod_scheduled: Int64 | None = None
    estimated_seconds_after_initialized: Int64 | None = None
    allow_customize_estimation: bool = False
    aggregated: LoadAwareAggregatedArgs | None = None
    supported_resources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        defaults = {
            "filter_expired_node_metrics": True,
            "node_metric_expiration_seconds": _EXPIRATION_SECONDS,
            "enable_schedule_when_node_metrics_expired": False,
        }
        for name, default in defaults.items():
            if getattr(self, name) is None:
                force_setattr(self, name, default)
        if not self.resource_weights and not self.dominant_resource_weight:
            force_setattr(self, "resource_weights", _WEIGHTS)
        if not self.usage_thresholds:
            force_setattr(self, "usage_thresholds", _THRESHOLDS)
        factors = {**_FACTORS, **(self.estimated_scaling_factors or {})}
        force_setattr(self, "estimated_scaling_factors", factors)

    def problems(self, path: str) -> Iterator[str]:
        seconds, weight = self.node_metric_expiration_seconds, self.dominant_resource_weight
        if seconds is not None and seconds <= 0:
            yield problem(f"{path}.nodeMetricExpirationSeconds", seconds, "1 or more")
        if not 0 <= weight <= 100:
            yield problem(f"{path}.dominantResourceWeight", weight, "0 to 100")
        yield from _outside(self.resource_weights, f"{path}.resourceWeights", 1, 100)
        yield from _outside(self.usage_thresholds, f"{path}.usageThresholds", 0, 100)
        factors = self.estimated_scaling_factors or {}
        yield from _outside(factors, f"{path}.estimatedScalingFactors", 1, 100)
        for name in sorted((self.resource_weights or {}).keys() - factors.keys()):
            expected = "1 to 100, as the resource has a weight"
            yield problem(f"{path}.estimatedScalingFactors.{name}", None, expected)
        # Koordinator takes any threshold here; a negative one would keep all pods off all nodes.
        yield from _outside(self.prod_usage_thresholds, f"{path}.prodUsageThresholds", 0, 2**31)
        if self.estimator not in ("", _ESTIMATOR):
            yield problem(
                f"{path}.estimator", self.estimator, f"{_ESTIMATOR}, the only one there is"
            )
        if self.aggregated is not None:
            yield from self.aggregated.problems(f"{path}.aggregated")

    def settings(self) -> LoadSettings:
        """Return the settings of the plugin."""
        aggregated = self.aggregated or LoadAwareAggregatedArgs()
        factors = self.estimated_scaling_factors or {}
        names = {CPU, MEMORY, *factors, *(self.supported_resources or ())}
        for one in (
            self.usage_thresholds,
            self.prod_usage_thresholds,
            aggregated.usage_thresholds,
            self.resource_weights,
        ):
            names |= (one or {}).keys()
        resources = tuple(sorted(names))
        return LoadSettings(
            resources,
            _vector(self.usage_thresholds, resources),
            _vector(self.prod_usage_thresholds, resources),
            aggregated.thresholds(resources),
            aggregated.score_window(),
            _vector(self.resource_weights, resources),
            self.dominant_resource_weight,
            tuple(sorted(factors.items())),
            self.node_metric_expiration_seconds or _EXPIRATION_SECONDS,
            bool(self.filter_expired_node_metrics),
            bool(self.enable_schedule_when_node_metrics_expired),
            self.prod_usage_include_sys,
            bool(self.score_according_prod_usage),
            max(0, self.estimated_seconds_after_pod_scheduled or 0),
            max(0, self.estimated_seconds_after_initialized or 0),
            self.allow_customize_estimation,
        )


def _outside(
    by_resource: Mapping[str, int] | None, path: str, least: int, most: int
) -> Iterator[str]:
    for name, value in (by_resource or {}).items():
        if not least <= value <= most:
            expected = f"{least} to {most}" if most <= 100 else f"{least} or more"
            yield problem(f"{path}.{name}", value, expected)


def _window(aggregation: str, time: str | None) -> UsageWindow:
    return UsageWindow(aggregation, duration.seconds(time) if time is not None else 0.0)


def _vector(by_resource: Mapping[str, int] | None, resources: tuple[str, ...]) -> Vector:
    return tuple((by_resource or {}).get(name, 0) for name in resources)
