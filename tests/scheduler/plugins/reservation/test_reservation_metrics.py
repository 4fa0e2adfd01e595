"""Phases and amounts of reservations, by Koordinator's names and units."""

from __future__ import annotations

import json
from typing import Any

from koord_scheduler.plugins.reservation.objects import read_reservation_object
from koord_scheduler.plugins.reservation.reservation import Reservation, reservation_of
from koord_scheduler.plugins.reservation.reservation_metrics import ReservationMetrics
from prometheus_client import CollectorRegistry

from tests.support.reservations import reservation

CARD = "example.com/card"


def read(name: str, node: str = "", **status: Any) -> Reservation:
    document = reservation(name, "4", node, owners=[])
    document["status"] |= status
    return reservation_of(read_reservation_object(json.dumps(document).encode()))


def test_phases_and_amounts() -> None:
    allocatable = {"cpu": "4", "memory": "8Gi", CARD: "2"}
    used = read("used", "n1", allocatable=allocatable, allocated={"cpu": "500m", "memory": "2Gi"})
    registry = CollectorRegistry()
    registry.register(ReservationMetrics(lambda: [used, read("waits", phase="")]))

    def phase(name: str, phase: str) -> float | None:
        labels = {"name": name, "phase": phase}
        return registry.get_sample_value("scheduler_reservation_status_phase", labels)

    def amount(kind: str, resource: str, unit: str, name: str = "used") -> float | None:
        labels = {"type": kind, "name": name, "resource": resource, "unit": unit}
        return registry.get_sample_value("scheduler_reservation_resource", labels)

    assert (phase("used", "Available"), phase("used", "Pending")) == (1, 0)
    assert (phase("waits", "Pending"), phase("waits", "Failed")) == (1, 0)
    assert amount("allocatable", "cpu", "core") == 4
    assert amount("allocated", "cpu", "core") == 0.5
    assert amount("utilization", "cpu", "ratio") == 0.125
    assert amount("allocatable", "memory", "Gi") == 8
    assert amount("utilization", "memory", "ratio") == 0.25
    assert (amount("allocatable", CARD, "raw"), amount("allocated", CARD, "raw")) == (2, 0)
    assert amount("allocatable", "cpu", "core", "waits") is None
