"""Tells the owners of pods what became of them: conditions and Events, behind all bindings."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio
from koord_kube.core.events import EventAggregator, EventSource, event, reference
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import EVENTS, PODS

from koord_scheduler.binder import Write
from koord_scheduler.framework.scheduler import Placement
from koord_scheduler.queue.scheduling_queue import QueuedPod

MOST_WAITING = 100_000
"""Reports; beyond them the oldest are dropped."""
LONGEST_DELAY_SECONDS = 20.0
_STREAMS = 32
_IDLE_SECONDS = 0.05


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
        self._waiting: deque[_Report] = deque(maxlen=MOST_WAITING)
        self._seen = EventAggregator()
        self._news = anyio.Event()
        self.dropped = 0
        """Reports that were not written."""

    def scheduled(self, placement: Placement) -> None:
        """A pod has a node."""
        pod, at = placement.pod, self._wall()
        message = f"Successfully assigned {pod.key} to {placement.node}"
        self._put(lambda: self._event(pod, "Scheduled", message, at, warning=False))

    def unschedulable(self, pods: Iterable[QueuedPod], message: str) -> None:
        """Pods fit nowhere; those that say so already are passed over."""
        at = self._wall()
        for pod in pods:
            if pod.reported != message:
                self._report_unschedulable(pod, message, at)

    def _report_unschedulable(self, pod: QueuedPod, message: str, at: float) -> None:
        had_condition = bool(pod.reported)
        pod.reported = message
        self._put(lambda: _condition(pod, message, at, is_new=not had_condition))
        if self._seen.count((pod.key, pod.uid, message), self._monotonic()):
            self._put(lambda: self._event(pod, "FailedScheduling", message, at, warning=True))

    async def run(self) -> None:
        """Write until cancelled."""
        async with anyio.create_task_group() as group:
            for _ in range(_STREAMS):
                group.start_soon(self._work)

    async def _work(self) -> None:
        while True:
            report = self._next()
            if report is not None:
                await self._send(report.request())
            elif self._waiting:
                await anyio.sleep(_IDLE_SECONDS)
            else:
                if self._news.is_set():
                    self._news = anyio.Event()
                await self._news.wait()

    def _next(self) -> _Report | None:
        if not self._waiting:
            return None
        if self._busy() and self._monotonic() - self._waiting[0].at < LONGEST_DELAY_SECONDS:
            return None
        return self._waiting.popleft()

    async def _send(self, request: Request) -> None:
        try:
            await self._write(request)
        except (NotFoundError, NotLeadingError):
            self.dropped += 1  # the pod is gone, or somebody else reports
        except ApiError as error:
            self.dropped += 1
            self._on_warning(f"{error} (not reported)")
            if error.status in (0, 429) or error.status >= 500:
                await anyio.sleep(max(error.retry_after, 1.0))

    def _put(self, request: Callable[[], Request]) -> None:
        if len(self._waiting) == MOST_WAITING:
            self.dropped += 1
        self._waiting.append(_Report(request, self._monotonic()))
        self._news.set()

    def _event(
        self, pod: QueuedPod, reason: str, message: str, at: float, *, warning: bool
    ) -> Request:
        namespace, _, name = pod.key.partition("/")
        source = EventSource(pod.waiting.scheduler_name, self._instance)
        about = reference(PODS, name, namespace, pod.uid)
        body = event(about, reason, message, source, at, warning=warning)
        return Request("POST", EVENTS, "", namespace, body=body)


def _condition(pod: QueuedPod, message: str, at: float, *, is_new: bool) -> Request:
    """The request that sets PodScheduled to false, of the pod with this uid alone."""
    namespace, _, name = pod.key.partition("/")
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    if is_new:
        since = datetime.fromtimestamp(int(at), UTC)
        condition["lastTransitionTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
    return Request("PATCH", PODS, name, namespace, "status", body, is_strategic=True)
