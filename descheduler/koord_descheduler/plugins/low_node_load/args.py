"""Arguments of Koordinator's LowNodeLoad, with its defaults and what it allows. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from koord_model import duration
from koord_model.keys import CPU, MEMORY
from koord_scheduler.arguments.fields import Int64, NotNegative, Seconds, Strict
from koord_scheduler.arguments.problems import problem
from msgspec.structs import replace

from koord_descheduler.framework.balancing.pool_settings import AnomalyCondition, PoolSettings
from koord_descheduler.framework.pod_selection import SelectingArgs, parsed, selector_problems

_Thresholds = dict[str, float]
_THRESHOLDS = {
    "low_thresholds": "lowThresholds",
    "high_thresholds": "highThresholds",
    "prod_low_thresholds": "prodLowThresholds",
    "prod_high_thresholds": "prodHighThresholds",
}
_DEFAULT_POOL = "__default_node_pool__"
"""Koordinator's name of the pool that the arguments themselves describe."""
_TIMEOUT = 60.0


class LoadAnomalyCondition(Strict, frozen=True):
    """The number of rounds in a row that decide; 0 inherits."""

    timeout: str | None = None
    consecutive_abnormalities: NotNegative = 0
    consecutive_normalities: NotNegative = 0


_CONDITION = LoadAnomalyCondition(None, 5, 3)


class LowNodeLoadNodePool(Strict, frozen=True):
    """Nodes with thresholds of their own; what is absent is inherited from the arguments."""

    name: str = ""
    node_selector: dict[str, Any] | None = None
    use_deviation_thresholds: bool = False
    high_thresholds: _Thresholds | None = None
    low_thresholds: _Thresholds | None = None
    prod_high_thresholds: _Thresholds | None = None
    prod_low_thresholds: _Thresholds | None = None
    resource_weights: dict[str, Int64] | None = None
    anomaly_condition: LoadAnomalyCondition | None = None

    def problems(self, path: str) -> Iterator[str]:
        """Return Koordinator's errors in it, and thresholds that would have no effect."""
        yield from selector_problems(self.node_selector, f"{path}.nodeSelector")
        for field, known_as in _THRESHOLDS.items():
            for name, per_cent in (getattr(self, field) or {}).items():
                if per_cent < 0:
                    yield problem(f"{path}.{known_as}.{name}", per_cent, "0 or more")
        for low, high in (
            ("low_thresholds", "high_thresholds"),
            ("prod_low_thresholds", "prod_high_thresholds"),
        ):
            yield from self._above(path, low, high)
            yield from self._alone(path, low, high)
            yield from self._alone(path, high, low)
        yield from self._above(path, "prod_high_thresholds", "high_thresholds")
        condition = self.anomaly_condition
        if condition is not None and condition.timeout is not None:
            yield from _of_duration(condition.timeout, f"{path}.anomalyCondition.timeout")

    def _alone(self, path: str, given: str, absent: str) -> Iterator[str]:
        """One of a pair: it would have no effect, or make every node a source."""
        for name in (getattr(self, given) or {}).keys() - (getattr(self, absent) or {}).keys():
            expected = f"a threshold, as {_THRESHOLDS[given]} has one"
            yield problem(f"{path}.{_THRESHOLDS[absent]}.{name}", None, expected)

    def _above(self, path: str, lower: str, higher: str) -> Iterator[str]:
        limits = getattr(self, higher) or {}
        for name, per_cent in (getattr(self, lower) or {}).items():
            if per_cent > limits.get(name, per_cent):
                expected = f"{_THRESHOLDS[higher]}.{name} ({limits[name]:g}) or less"
                yield problem(f"{path}.{_THRESHOLDS[lower]}.{name}", per_cent, expected)


class LowNodeLoadArgs(SelectingArgs, frozen=True):
    """Arguments of LowNodeLoad."""

    number_of_nodes: NotNegative = 0
    node_metric_expiration_seconds: Seconds = 180
    node_fit: bool = True
    use_deviation_thresholds: bool = False
    high_thresholds: _Thresholds | None = None
    low_thresholds: _Thresholds | None = None
    prod_high_thresholds: _Thresholds | None = None
    prod_low_thresholds: _Thresholds | None = None
    resource_weights: dict[str, Int64] | None = None
    anomaly_condition: LoadAnomalyCondition | None = None
    detector_cache_timeout: str = "5m"
    node_pools: tuple[LowNodeLoadNodePool, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        yield from _of_duration(self.detector_cache_timeout, f"{path}.detectorCacheTimeout")
        default, *pools = self._pools()
        yield from replace(default, node_selector=None).problems(path)
        for place, pool in enumerate(pools):
            yield from pool.problems(f"{path}.nodePools[{place}]")

    def pools(self) -> list[PoolSettings]:
        """The pools, in order; that of the arguments themselves comes first."""
        return [_settings(pool) for pool in self._pools()]

    def _pools(self) -> list[LowNodeLoadNodePool]:
        """The same as they are given, with what they inherit."""
        own = LowNodeLoadNodePool(
            _DEFAULT_POOL,
            self.node_selector,
            self.use_deviation_thresholds,
            self.high_thresholds,
            self.low_thresholds,
            self.prod_high_thresholds,
            self.prod_low_thresholds,
            self._weights(),
            _completed(self.anomaly_condition, _CONDITION),
        )
        return [own, *(_inheriting(pool, own) for pool in self.node_pools)]

    def _weights(self) -> dict[str, int]:
        names = {CPU, MEMORY, *(self.low_thresholds or {}), *(self.high_thresholds or {})}
        given = self.resource_weights or {}
        return given | {name: max(given.get(name, 0), 0) or 1 for name in names}


def _inheriting(pool: LowNodeLoadNodePool, own: LowNodeLoadNodePool) -> LowNodeLoadNodePool:
    absent = [name for name in (*_THRESHOLDS, "resource_weights") if getattr(pool, name) is None]
    inherited: dict[str, Any] = {name: getattr(own, name) for name in absent}
    condition = _completed(pool.anomaly_condition, own.anomaly_condition)
    return replace(pool, **inherited, anomaly_condition=condition)


def _completed(
    given: LoadAnomalyCondition | None, inherited: LoadAnomalyCondition | None
) -> LoadAnomalyCondition:
    inherited = inherited or _CONDITION
    if given is None:
        return inherited
    return LoadAnomalyCondition(
        given.timeout,
        given.consecutive_abnormalities or inherited.consecutive_abnormalities,
        given.consecutive_normalities or inherited.consecutive_normalities,
    )


def _settings(pool: LowNodeLoadNodePool) -> PoolSettings:
    condition = pool.anomaly_condition or _CONDITION
    low, prod_low = pool.low_thresholds or {}, pool.prod_low_thresholds or {}
    if pool.use_deviation_thresholds:  # a distance of 0 means no threshold
        low, prod_low = ({name: n for name, n in of.items() if n} for of in (low, prod_low))
    timeout = duration.seconds(condition.timeout) if condition.timeout else 0.0
    return PoolSettings(
        pool.name,
        parsed(pool.node_selector),
        pool.use_deviation_thresholds,
        low,
        pool.high_thresholds or {},
        prod_low,
        pool.prod_high_thresholds or {},
        pool.resource_weights or {},
        AnomalyCondition(
            timeout or _TIMEOUT,
            condition.consecutive_abnormalities,
            condition.consecutive_normalities,
        ),
        (MEMORY,),
    )


def _of_duration(given: str, path: str) -> Iterator[str]:
    try:
        duration.seconds(given)
    except ValueError:
        yield problem(path, given, "a duration like 5m or 1h30m")
