"""Prometheus metrics of tide pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class PoolFigures(NamedTuple):
    """Numbers of a pool's nodes, and the percentage of the online side that is requested."""

    counts: Mapping[str, int]
    requested: float


class TideMetrics(Collector):
    """``pools`` are the last figures by pool."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pools: dict[str, PoolFigures] = {}
        self.moves = Counter(
            "pykoord_descheduler_tide_moves",
            "Nodes that changed sides, or were given back.",
            ["pool", "to", "result"],
            registry=registry,
        )
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: pools are not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Collect the figures of all pools."""
        nodes = GaugeMetricFamily(
            "pykoord_descheduler_tide_nodes",
            "Nodes of a pool: online, offline, toOnline, toOffline, unusable.",
            labels=["pool", "state"],
        )
        requested = GaugeMetricFamily(
            "pykoord_descheduler_tide_requested_ratio",
            "CPU or memory of the online side that is requested, whichever is more.",
            labels=["pool"],
        )
        for pool, figures in list(self.pools.items()):
            for state, number in figures.counts.items():
                nodes.add_metric([pool, state], number)
            requested.add_metric([pool], figures.requested / 100)
        yield nodes
        yield requested
