"""A scheduler's metrics after all has happened once."""

from __future__ import annotations

from koord_scheduler.program.metrics import SchedulerMetrics, SchedulerStatus
from prometheus_client import CollectorRegistry


def full_registry() -> CollectorRegistry:
    """With a row of each metric."""
    registry = CollectorRegistry()
    status = SchedulerStatus(leads=True, pending={"active": 1}, cached={"nodes": 1})
    metrics = SchedulerMetrics(registry, lambda: status)
    metrics.attempts.labels("scheduled", "koord-scheduler").inc()
    metrics.attempt_seconds.labels("scheduled", "koord-scheduler").observe(0.001)
    metrics.sli_seconds.observe(0.1)
    return registry
