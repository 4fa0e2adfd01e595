"""What owners of waiting pods are told."""

from __future__ import annotations

import json

import anyio
import pytest
from koord_kube.protocol.request import Request
from koord_scheduler.classes.pod_reader import PodReader
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.pod_reporter import PodReporter
from koord_scheduler.queue.scheduling_queue import QueuedPod

from tests.support.waiting import until


@pytest.mark.parametrize(
    ("shown", "reported", "is_told"),
    [("", "", True), ("", "full", False), ("full", "", False), ("older", "full", True)],
)
async def test_a_pod_is_told_unless_it_says_so(shown: str, reported: str, is_told: bool) -> None:
    written: list[Request] = []

    async def write(request: Request) -> bytes:
        written.append(request)
        return b"{}"

    condition = {"type": "PodScheduled", "status": "False", "message": shown}
    document = {"metadata": {"name": "p", "namespace": "d"}, "status": {"conditions": [condition]}}
    waiting = PodReader(NodeColumns()).read(json.dumps(document).encode()).waiting
    assert waiting is not None
    reporter = PodReporter(write, lambda: False)
    pod = QueuedPod("d/p", "1", 0, waiting, 1, 0.0, reported=reported)
    other = QueuedPod("d/q", "2", 0, waiting._replace(condition=""), 2, 0.0)
    reporter.unschedulable([pod, other], "full")
    async with anyio.create_task_group() as group:
        group.start_soon(reporter.run)
        await until(lambda: any(one.name == "q" for one in written), "the other pod is told")
        group.cancel_scope.cancel()
    assert any(one.name == "p" for one in written) == is_told
