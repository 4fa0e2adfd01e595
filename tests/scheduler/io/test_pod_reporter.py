"""Reports to owners of waiting pods."""

from __future__ import annotations

import json

import anyio
import pytest
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import SharedBackoff
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io.pod_reporter import PodReporter
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.reservation_reader import ReservationReader
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import PodReader

from tests.support.reservations import reservation
from tests.support.waiting import until


def reports_of() -> tuple[list[Request], BackgroundWriter]:
    """The writes, and their authors."""
    written: list[Request] = []

    async def write(request: Request) -> bytes:
        written.append(request)
        return b"{}"

    return written, BackgroundWriter(TaskSubmitter(write).submit, SharedBackoff())


@pytest.mark.parametrize(
    ("shown", "reported", "is_reported"),
    [("", "", True), ("", "full", False), ("full", "", False), ("older", "full", True)],
)
async def test_a_pod_is_reported_unless_it_says_so(
    shown: str, reported: str, is_reported: bool
) -> None:
    written, reports = reports_of()
    condition = {"type": "PodScheduled", "status": "False", "message": shown}
    document = {"metadata": {"name": "p", "namespace": "d"}, "status": {"conditions": [condition]}}
    waiting = PodReader(ClusterState()).read(json.dumps(document).encode()).waiting
    assert waiting is not None
    reporter = PodReporter(reports)
    pod = QueuedPod("d/p", "1", 0, waiting, 1, 0.0, reported=reported)
    other = QueuedPod("d/q", "2", 0, waiting._replace(condition=""), 2, 0.0)
    reporter.unschedulable([pod, other], "full")
    async with anyio.create_task_group() as group:
        group.start_soon(reports.run)
        await until(lambda: any(one.name == "q" for one in written), "the other pod is reported")
        group.cancel_scope.cancel()
    assert any(one.name == "p" for one in written) == is_reported


async def test_a_reservation_says_why_it_waits() -> None:
    written, reports = reports_of()
    document = json.dumps(reservation("r", "4", owners=[])).encode()
    nodes = ClusterState()
    read = ReservationReader(nodes, nodes.use(ReservationColumns)).read(document).pod
    assert read.waiting is not None
    pod = QueuedPod(read.key, read.uid, 0, read.waiting, 1, 0.0)
    reporter = PodReporter(reports)
    reporter.unschedulable([pod], "full")
    async with anyio.create_task_group() as group:
        group.start_soon(reports.run)
        await until(lambda: len(written) == 2, "a condition and an Event")
        group.cancel_scope.cancel()
    status, event = sorted(written, key=lambda one: one.method != "PATCH")
    [condition] = json.loads(status.payload)["status"]["conditions"]
    assert status.path.endswith("/reservations/r/status")
    assert (condition["type"], condition["status"]) == ("Scheduled", "False")
    assert (condition["reason"], condition["message"]) == ("Unschedulable", "full")
    about = json.loads(event.payload)["involvedObject"]
    assert (about["kind"], about["name"]) == ("Reservation", "r")
    assert "namespace" not in about or not about["namespace"]
