"""A scheduler's metrics after all has happened once."""

from __future__ import annotations

import json

from koord_scheduler.gang.gangs import Gangs
from koord_scheduler.program.gang_metrics import GangMetrics
from koord_scheduler.program.metrics import SchedulerMetrics, SchedulerStatus
from koord_scheduler.program.reservation_metrics import ReservationMetrics
from koord_scheduler.reservations.objects import read_reservation_object
from koord_scheduler.reservations.reservation import reservation_of
from prometheus_client import CollectorRegistry

from tests.support.reservations import reservation


def full_registry() -> CollectorRegistry:
    """With a row of each metric."""
    registry = CollectorRegistry()
    status = SchedulerStatus(leads=True, pending={"active": 1}, cached={"nodes": 1})
    metrics = SchedulerMetrics(registry, lambda: status)
    metrics.attempts.labels("scheduled", "koord-scheduler").inc()
    metrics.attempt_seconds.labels("scheduled", "koord-scheduler").observe(0.001)
    metrics.sli_seconds.observe(0.1)
    document = json.dumps(reservation("r", "4", "n1", owners=[])).encode()
    kept = reservation_of(read_reservation_object(document))
    registry.register(ReservationMetrics(lambda: [kept]))
    registry.register(GangMetrics(Gangs()))
    return registry
