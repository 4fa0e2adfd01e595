"""Prometheus metrics of reservations: Koordinator's, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from koord_model.keys import CPU, MEMORY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from koord_scheduler.plugins.reservation.objects import AVAILABLE, FAILED, PENDING, SUCCEEDED
from koord_scheduler.plugins.reservation.reservation import Reservation

_PHASES = (PENDING, AVAILABLE, SUCCEEDED, FAILED)
_UNITS = {CPU: ("core", 1000), MEMORY: ("Gi", 1 << 30)}
"""The unit of a resource, and how many of its amounts are one; others are shown as they are."""


class ReservationMetrics(Collector):
    """Read at each scrape; of as many series as there are reservations."""

    def __init__(self, reservations: Callable[[], Iterable[Reservation]]) -> None:
        self._reservations = reservations

    def describe(self) -> Iterable[Metric]:
        """Nothing: reservations are not known yet when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The phases of all, and the amounts of those with a node."""
        phases = GaugeMetricFamily(
            "scheduler_reservation_status_phase",
            "1 for the phase of a reservation.",
            labels=["name", "phase"],
        )
        amounts = GaugeMetricFamily(
            "scheduler_reservation_resource",
            "What a reservation has, and what pods have of it.",
            labels=["type", "name", "resource", "unit"],
        )
        for reservation in self._reservations():
            for phase in _PHASES:
                phases.add_metric(
                    [reservation.name, phase], float(phase == (reservation.phase or PENDING))
                )
            if reservation.node:
                for labels, value in _amounts(reservation):
                    amounts.add_metric(labels, value)
        yield phases
        yield amounts


def _amounts(reservation: Reservation) -> Iterator[tuple[list[str], float]]:
    allocated = dict(reservation.life.allocated)
    for name, has in sorted(reservation.allocatable.items()):
        unit, size = _UNITS.get(name, ("raw", 1))
        taken = allocated.get(name, 0)
        yield ["allocatable", reservation.name, name, unit], has / size
        yield ["allocated", reservation.name, name, unit], taken / size
        if has:
            yield ["utilization", reservation.name, name, "ratio"], taken / has
