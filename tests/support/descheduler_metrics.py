"""A descheduler's metrics after all has happened once."""

from __future__ import annotations

from koord_descheduler.program.metrics import DeschedulerMetrics, DeschedulerStatus
from koord_descheduler.tide.tide_metrics import PoolFigures, TideMetrics
from prometheus_client import CollectorRegistry


def full_descheduler_registry() -> CollectorRegistry:
    """With a row of each metric."""
    registry = CollectorRegistry()
    status = DeschedulerStatus(leads=True, planned=1, refused={"Fit": 1}, under_way=1)
    metrics = DeschedulerMetrics(registry, lambda: status)
    metrics.evicted.labels("success", "LowNodeLoad", "shop", "n1").inc()
    metrics.round_seconds.observe(0.1)
    metrics.failed_rounds.labels("not ready").inc()
    tides = TideMetrics(registry)
    tides.moves.labels("night", "offline", "done").inc()
    tides.pools["night"] = PoolFigures({"online": 1}, 50.0)
    return registry
