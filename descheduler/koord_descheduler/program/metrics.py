"""Prometheus metrics of a descheduler: Koordinator's by its name, and those of rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_BUCKETS = tuple(0.01 * 2**power for power in range(12))


@dataclass(frozen=True, slots=True)
class DeschedulerStatus:
    """Present numbers of a descheduler; ``refused`` by rule, of the last round."""

    leads: bool
    planned: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    under_way: int = 0


class DeschedulerMetrics(Collector):
    """Counts rounds and evictions as they are made; the rest is read at each scrape."""

    def __init__(
        self, registry: CollectorRegistry, status: Callable[[], DeschedulerStatus]
    ) -> None:
        self._status = status
        self.evicted = Counter(
            "descheduler_pods_evicted",
            "Evictions and migration jobs, by result, plugin, namespace and node.",
            ["result", "strategy", "namespace", "node"],
            registry=registry,
        )
        self.round_seconds = Histogram(
            "pykoord_descheduler_round_duration_seconds",
            "Time of planning a round.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.failed_rounds = Counter(
            "pykoord_descheduler_failed_rounds",
            "Rounds that were not planned, by reason.",
            ["reason"],
            registry=registry,
        )
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: figures are not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Collect the metrics that are read."""
        now = self._status()
        for name, about, value in (
            ("pykoord_descheduler_leader", "Whether this descheduler leads.", now.leads),
            ("pykoord_descheduler_planned_moves", "Moves of the last round.", now.planned),
            ("pykoord_descheduler_moves_under_way", "Moves that have not ended.", now.under_way),
        ):
            yield GaugeMetricFamily(name, about, value=value)
        refused = GaugeMetricFamily(
            "pykoord_descheduler_refused_moves",
            "Pods that a plugin of the last round wanted to move and that stay, by rule.",
            labels=["rule"],
        )
        for rule, number in now.refused.items():
            refused.add_metric([rule], number)
        yield refused
