"""Prometheus metrics of the NodeMetrics in memory."""

from __future__ import annotations

from koord_service.grpc_core import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge

from koord_manager.node_metric.core.store import NodeMetricStore

_TAKEN = "OK"


class NodeMetricMetrics:
    """Gauges are read at each scrape; ``reports`` counts answers by gRPC's codes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reports = Counter(
            "koord_manager_node_metric_reports",
            "Reports of nodes, by what was answered.",
            ("code",),
            registry=registry,
        )
        self._taken = self._reports.labels(_TAKEN)
        self._nodes = Gauge(
            "koord_manager_node_metric_nodes",
            "Nodes whose NodeMetric is kept in memory.",
            registry=registry,
        )
        self._stale = Gauge(
            "koord_manager_node_metric_stale_nodes",
            "Nodes among them that have been silent for too long.",
            registry=registry,
        )
        self._bytes = Gauge(
            "koord_manager_node_metric_bytes",
            "Size of what is kept.",
            registry=registry,
        )
        self._watches = Gauge(
            "koord_manager_node_metric_watches",
            "Watches of NodeMetrics that are open.",
            registry=registry,
        )

    def answered(self, code: grpc.StatusCode | None) -> None:
        """A report was taken (``None``) or refused."""
        if code is None:
            self._taken.inc()
        else:
            self._reports.labels(code.name).inc()

    def show(self, store: NodeMetricStore, size: int, watches: int) -> None:
        """Show the present numbers."""
        self._nodes.set(len(store))
        self._stale.set(len(store.stale))
        self._bytes.set(size)
        self._watches.set(watches)
