"""Tells the owners of pods what became of them: conditions and Events, behind all bindings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import anyio
from koord_kube.core.events import EventAggregator, EventSource, event, reference
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import EVENTS, PODS, RESERVATIONS

from koord_scheduler.framework.decisions import Placement, PreemptionPlan
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io.fifo_queue import FifoQueue
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.io.pod_requests import condition_patch
from koord_scheduler.plugins.reservation.reservation_requests import unschedulable_patch
from koord_scheduler.state.placed_pods import PlacedPod

MOST_WAITING = 100_000
"""Reports; beyond them the oldest are dropped."""
LONGEST_DELAY_SECONDS = 20.0
_STREAMS = 32


class EventKind(NamedTuple):
    """The reason of an Event, and whether it is a warning."""

    reason: str
    is_warning: bool


_SCHEDULED = EventKind("Scheduled", is_warning=False)
_FAILED = EventKind("FailedScheduling", is_warning=True)
_EVENTS_OF_RESERVATIONS = "default"
"""The namespace of Events about what has none."""
_BUSY_SECONDS = 0.1
"""How long a report waits until it is asked again whether it may be written."""


@dataclass(frozen=True, slots=True)
class _Report:
    request: Callable[[], Request]
    at: float


class PodReporter:
    """Writes conditions and Events of pods. A report that cannot be written is dropped.

    Reports wait while ``busy`` returns true, but no longer than ``LONGEST_DELAY_SECONDS``: an Event
    costs the API server as much as a binding.
    """

    def __init__(
        self,
        write: Write,
        busy: Callable[[], bool],
        *,
        instance: str = "",
        on_warning: OnWarning = ignore_warning,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``instance`` is the name of this program's pod."""
        self._write = write
        self._busy = busy
        self._instance = instance
        self._on_warning = on_warning
        self._wall = wall
        self._monotonic = monotonic
        self._reports: FifoQueue[_Report] = FifoQueue(MOST_WAITING)
        self._seen = EventAggregator()
        self._failures = 0

    @property
    def dropped(self) -> int:
        """How many reports were not written."""
        return self._failures + self._reports.dropped

    def scheduled(self, placement: Placement) -> None:
        """A pod has a node."""
        pod, at = placement.pod, self._wall()
        message = f"Successfully assigned {pod.key} to {placement.node}"
        self._put(lambda: self._event(pod, _SCHEDULED, message, at))

    def unschedulable(self, pods: Iterable[QueuedPod], message: str) -> None:
        """Pods fit nowhere; those that say so already are passed over."""
        at = self._wall()
        for pod in pods:
            # Of two reports under way the API server may take the older one last.
            if (pod.waiting.condition or pod.reported) != message:
                self._report_waiting(pod, "Unschedulable", message, at)

    def failed(self, pod: QueuedPod, message: str) -> None:
        """It is not known whether a pod fits somewhere."""
        if pod.reported != message:
            self._report_waiting(pod, "SchedulerError", message, self._wall())

    def _report_waiting(self, pod: QueuedPod, reason: str, message: str, at: float) -> None:
        had_condition = bool(pod.reported)
        pod.reported = message
        self._put(lambda: _condition(pod, reason, message, at, is_new=not had_condition))
        if self._seen.count((pod.key, pod.uid, message), self._monotonic()):
            self._put(lambda: self._event(pod, _FAILED, message, at))

    def preempted(self, victim: PlacedPod, plan: PreemptionPlan) -> None:
        """A pod had to make room for another."""
        at, source = self._wall(), plan.pod.waiting.scheduler_name
        message = f"Preempted by pod {plan.pod.uid} on node {victim.node}"
        kind = EventKind("Preempted", is_warning=False)
        self._put(lambda: self._event_of(victim.key, victim.uid, source, kind, message, at))

    async def run(self) -> None:
        """Write until cancelled."""
        async with anyio.create_task_group() as group:
            for _ in range(_STREAMS):
                group.start_soon(self._work)

    async def _work(self) -> None:
        while True:
            report = await self._reports.get()
            await self._calm(report.at + LONGEST_DELAY_SECONDS)
            await self._send(report.request())

    async def _calm(self, end: float) -> None:
        """Wait until bindings leave room for a report, or for ``end``."""
        while True:
            if not self._busy() or self._monotonic() >= end:
                return
            await anyio.sleep(_BUSY_SECONDS)

    async def _send(self, request: Request) -> None:
        try:
            await self._write(request)
        except (NotFoundError, NotLeadingError):
            self._failures += 1  # the pod is gone, or somebody else reports
        except ApiError as error:
            self._failures += 1
            self._on_warning(f"{error} (not reported)")
            if error.status in (0, 429) or error.status >= 500:
                await anyio.sleep(max(error.retry_after, 1.0))

    def _put(self, request: Callable[[], Request]) -> None:
        self._reports.put(_Report(request, self._monotonic()))

    def _event(self, pod: QueuedPod, kind: EventKind, message: str, at: float) -> Request:
        source, room = pod.waiting.scheduler_name, pod.waiting.reserves
        if room is None:
            return self._event_of(pod.key, pod.uid, source, kind, message, at)
        about = reference(RESERVATIONS, room.name, "", room.uid)
        return self._request(about, _EVENTS_OF_RESERVATIONS, source, kind, message, at)

    def _event_of(
        self, key: str, uid: str, source: str, kind: EventKind, message: str, at: float
    ) -> Request:
        namespace, _, name = key.partition("/")
        about = reference(PODS, name, namespace, uid)
        return self._request(about, namespace, source, kind, message, at)

    def _request(
        self,
        about: Object,
        namespace: str,
        source: str,
        kind: EventKind,
        message: str,
        at: float,
    ) -> Request:
        by = EventSource(source, self._instance)
        body = event(about, kind.reason, message, by, at, warning=kind.is_warning)
        return Request("POST", EVENTS, "", namespace, body=body)


def _condition(pod: QueuedPod, reason: str, message: str, at: float, *, is_new: bool) -> Request:
    """The request that sets PodScheduled to false, of the pod with this uid alone."""
    room = pod.waiting.reserves
    if room is not None:
        return unschedulable_patch(room, reason, message, at)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
    }
    return condition_patch(pod.key, pod.uid, condition, at if is_new else None)
