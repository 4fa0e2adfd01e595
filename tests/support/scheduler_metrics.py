"""A scheduler's metrics after all has happened once."""

from __future__ import annotations

import json

from koord_model.elastic_quota import ElasticQuota
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.plugins.coscheduling.gang_metrics import GangMetrics
from koord_scheduler.plugins.elastic_quota.quota_metrics import QuotaFigures, QuotaMetrics
from koord_scheduler.plugins.node_quarantine.quarantine_metrics import QuarantineMetrics
from koord_scheduler.plugins.reservation.objects import read_reservation_object
from koord_scheduler.plugins.reservation.reservation import reservation_of
from koord_scheduler.plugins.reservation.reservation_metrics import ReservationMetrics
from koord_scheduler.program.metrics import SchedulerMetrics, SchedulerStatus
from koord_scheduler.state.cluster_state import ClusterState
from prometheus_client import CollectorRegistry

from tests.support.reservations import reservation


def full_registry() -> CollectorRegistry:
    """With a row of each metric."""
    registry = CollectorRegistry()
    status = SchedulerStatus(
        leads=True, pending={"active": 1, "unschedulable": 1}, cached={"nodes": 1, "pods": 1}
    )
    metrics = SchedulerMetrics(registry, lambda: status)
    metrics.attempts.labels("scheduled", "koord-scheduler").inc()
    metrics.attempt_seconds.labels("scheduled", "koord-scheduler").observe(0.001)
    metrics.sli_seconds.observe(0.1)
    document = json.dumps(reservation("r", "4", "n1", owners=[])).encode()
    kept = reservation_of(read_reservation_object(document))
    registry.register(ReservationMetrics(lambda: [kept]))
    figures = QuotaFigures(ElasticQuota("team"), "", {"used": {"cpu": 1000}})
    quotas = QuotaMetrics(lambda: [figures])
    quotas.report_seconds.observe(0.001)
    registry.register(quotas)
    registry.register(GangMetrics(Gangs(ClusterState())))
    registry.register(QuarantineMetrics(lambda: ([("n1", "nvidia.com/gpu")], 3)))
    return registry
