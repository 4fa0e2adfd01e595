"""Prometheus metrics of a scheduler: kube-scheduler's, by their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from koord_scheduler.program.recent_rates import DecisionTotals

_ATTEMPT_BUCKETS = tuple(0.00005 * 2**power for power in range(16))
_SLI_BUCKETS = tuple(0.01 * 2**power for power in range(20))


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """Present numbers of a scheduler; ``pending`` by queue, ``cached`` by kind of object."""

    leads: bool
    pending: Mapping[str, int] = field(default_factory=dict)
    cached: Mapping[str, int] = field(default_factory=dict)
    unsent: int = 0
    dropped_reports: int = 0
    repaired_nodes: int = 0


class SchedulerMetrics(Collector):
    """Counts decisions as they are made; the rest is read at each scrape."""

    def __init__(self, registry: CollectorRegistry, status: Callable[[], SchedulerStatus]) -> None:
        self._status = status
        self.attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by the result.",
            ["result", "profile"],
            registry=registry,
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long a decision took, without its binding.",
            ["result", "profile"],
            buckets=_ATTEMPT_BUCKETS,
            registry=registry,
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod came into the queue to its binding.",
            buckets=_SLI_BUCKETS,
            registry=registry,
        )
        self._counters: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "How many victims a preemption had.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        registry.register(self)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt to schedule a pod."""
        labels = result, profile
        counters = self._counters.get(labels)
        if counters is None:  # to look these up costs more than to count
            counters = self.attempts.labels(*labels), self.attempt_seconds.labels(*labels)
            self._counters[labels] = counters
        attempts, attempt_seconds = counters
        attempts.inc()
        attempt_seconds.observe(seconds)

    def totals(self) -> DecisionTotals:
        """Sum the decisions and bindings so far, over all results and profiles."""
        bounds = (*_ATTEMPT_BUCKETS, math.inf)
        decided = dict.fromkeys(bounds, 0)  # before the first decision there are no samples
        for sample in _samples(self.attempt_seconds, "_bucket"):
            decided[float(sample.labels["le"])] += int(sample.value)
        bound = sum(int(sample.value) for sample in _samples(self.sli_seconds, "_count"))
        return DecisionTotals(bound, bounds, tuple(decided[one] for one in bounds))

    def describe(self) -> Iterable[Metric]:
        """Nothing: figures are not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Collect the metrics that are read."""
        now = self._status()
        yield GaugeMetricFamily(
            "pykoord_scheduler_leader", "Whether this scheduler leads.", value=now.leads
        )
        yield _by("scheduler_pending_pods", "Pods that wait, by queue.", "queue", now.pending)
        yield _by("scheduler_scheduler_cache_size", "Objects in the cache.", "type", now.cached)
        yield GaugeMetricFamily(
            "pykoord_scheduler_unsent_bindings", "Bindings that are not done.", value=now.unsent
        )
        yield CounterMetricFamily(
            "pykoord_scheduler_dropped_reports",
            "Conditions and Events that were not written.",
            value=now.dropped_reports,
        )
        yield CounterMetricFamily(
            "pykoord_scheduler_repaired_nodes",
            "Nodes whose columns were not what their pods say.",
            value=now.repaired_nodes,
        )


def _samples(metric: Histogram, suffix: str) -> Iterator[Sample]:
    for family in metric.collect():
        yield from (sample for sample in family.samples if sample.name.endswith(suffix))


def _by(name: str, about: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
