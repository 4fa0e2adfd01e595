"""The proxy's counters, and their metrics for Prometheus.

The relay counts in plain integers, read when somebody asks; only hooks, which
are rare and slow beside them, use Prometheus' own types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from koord_proxy.contract.events import Tally

OTHER = "other"
MAX_METHODS = 256
"""Paths counted by name; a client may invent any number, and the rest are one."""

_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)


@dataclass(slots=True)
class Gauges:
    """Values that are read when metrics are scraped, not counted; each gives values by labels."""

    connections: Callable[[], int] = lambda: 0
    records: Callable[[], dict[str, int]] = dict
    unmanaged: Callable[[], int] = lambda: 0
    breakers: Callable[[], dict[str, int]] = dict
    database: Callable[[], bool] = lambda: True
    registrations: Callable[[], int] = lambda: 0


@dataclass(slots=True)
class Metrics:
    """All counters of one proxy."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    gauges: Gauges = field(default_factory=Gauges)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    hook_seconds: Histogram = field(init=False)
    hook_outcomes: Counter = field(init=False)
    intercepted: Counter = field(init=False)

    def __post_init__(self) -> None:
        self.hook_seconds = Histogram(
            "koord_runtime_proxy_hook_seconds",
            "Time a hook server took to answer.",
            ("server", "stage"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.hook_outcomes = Counter(
            "koord_runtime_proxy_hook_outcomes",
            "Hook calls by what became of them.",
            ("server", "stage", "outcome"),
            registry=self.registry,
        )
        self.intercepted = Counter(
            "koord_runtime_proxy_intercepted_calls",
            "CRI calls that were intercepted, by what the client got.",
            ("method", "result"),
            registry=self.registry,
        )
        self.registry.register(_Relayed(self))

    def tally(self, path: str) -> Tally:
        """The counts of a path."""
        known = self.tallies.get(path)
        if known is None:
            name = path if len(self.tallies) < MAX_METHODS else OTHER
            known = self.tallies.setdefault(name, Tally())
        return known


class _Relayed(Collector):
    """The relay's own integers, as metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        calls = CounterMetricFamily(
            "koord_runtime_proxy_calls", "CRI calls by method.", labels=("method",)
        )
        data = CounterMetricFamily(
            "koord_runtime_proxy_bytes",
            "Bytes of messages, by method and by who sent them.",
            labels=("method", "sender"),
        )
        for path, tally in list(self._metrics.tallies.items()):
            calls.add_metric((path,), tally.calls)
            data.add_metric((path, "client"), tally.from_client)
            data.add_metric((path, "backend"), tally.from_backend)
        yield calls
        yield data
        yield from self._gauges()

    def _gauges(self) -> Iterator[Metric]:
        gauges = self._metrics.gauges
        yield GaugeMetricFamily(
            "koord_runtime_proxy_connections", "Client connections.", gauges.connections()
        )
        yield _family(
            "koord_runtime_proxy_records", "Pods and containers known.", "kind", gauges.records()
        )
        yield GaugeMetricFamily(
            "koord_runtime_proxy_unmanaged",
            "Pods and containers that went on without a hook that was due.",
            gauges.unmanaged(),
        )
        yield _family(
            "koord_runtime_proxy_breaker_state",
            "Hook server breakers: 0 closed, 1 half open, 2 open.",
            "server",
            gauges.breakers(),
        )
        yield GaugeMetricFamily(
            "koord_runtime_proxy_registration_problems",
            "Registrations that are damaged or gone.",
            gauges.registrations(),
        )
        yield GaugeMetricFamily(
            "koord_runtime_proxy_database_ok",
            "1 while records are written to the state database.",
            float(gauges.database()),
        )


def _family(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
