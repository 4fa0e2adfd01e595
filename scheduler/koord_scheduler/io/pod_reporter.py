"""Reports to the owners of pods: conditions and Events, behind all bindings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from koord_kube.background_writer import BackgroundWriter
from koord_kube.core.events import EventSource, reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Object
from koord_kube.protocol.pod_requests import condition_patch
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS

from koord_scheduler.framework.decisions import Placement, PreemptionPlan
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.state.pod_usage import PlacedPod


class PodReporter:
    """Writes conditions and Events of pods. A report that cannot be written is dropped."""

    def __init__(
        self,
        writer: BackgroundWriter,
        *,
        instance: str = "",
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``instance`` is the name of this program's pod."""
        self._writer = writer
        self._instance = instance
        self._wall = wall
        self._recorders: dict[str, EventRecorder] = {}
        """By the name of the scheduler that a pod asks for."""

    @property
    def dropped(self) -> int:
        """Number of reports that were not written."""
        return self._writer.counts["failed"] + self._writer.counts["dropped"]

    def scheduled(self, placement: Placement) -> None:
        """A pod has a node."""
        pod = placement.pod
        message = f"Successfully assigned {pod.key} to {placement.node}"
        self._recorder(pod.waiting.scheduler_name).write(_about(pod), "Scheduled", message)

    def unschedulable(self, pods: Iterable[QueuedPod], message: str) -> None:
        """Pods fit nowhere; those that say so already are passed over."""
        for pod in pods:
            # Of two reports under way the API server may take the older one last.
            if (pod.waiting.condition or pod.reported) != message:
                self._report_waiting(pod, "Unschedulable", message)

    def failed(self, pod: QueuedPod, message: str) -> None:
        """It is not known whether a pod fits somewhere."""
        if pod.reported != message:
            self._report_waiting(pod, "SchedulerError", message)

    def _report_waiting(self, pod: QueuedPod, reason: str, message: str) -> None:
        is_new = not pod.reported
        pod.reported = message
        self._writer.put(_condition(pod, reason, message, self._wall(), is_new=is_new))
        recorder = self._recorder(pod.waiting.scheduler_name)
        recorder.record(_about(pod), "FailedScheduling", message, warning=True)

    def preempted(self, victim: PlacedPod, plan: PreemptionPlan) -> None:
        """A pod had to make room for another."""
        message = f"Preempted by pod {plan.pod.uid} on node {victim.node}"
        recorder = self._recorder(plan.pod.waiting.scheduler_name)
        recorder.write(_about_pod(victim.key, victim.uid), "Preempted", message)

    def _recorder(self, scheduler_name: str) -> EventRecorder:
        recorder = self._recorders.get(scheduler_name)
        if recorder is None:
            source = EventSource(scheduler_name, self._instance)
            recorder = EventRecorder(self._writer, source, wall=self._wall)
            self._recorders[scheduler_name] = recorder
        return recorder


def _about(pod: QueuedPod) -> Object:
    stand_in = pod.waiting.stands_for
    if stand_in is None:
        return _about_pod(pod.key, pod.uid)
    return reference(stand_in.resource, stand_in.name, "", stand_in.uid)


def _about_pod(key: str, uid: str) -> Object:
    namespace, _, name = key.partition("/")
    return reference(PODS, name, namespace, uid)


def _condition(pod: QueuedPod, reason: str, message: str, at: float, *, is_new: bool) -> Request:
    """The request that sets PodScheduled to false, of the pod with this uid alone."""
    stand_in = pod.waiting.stands_for
    if stand_in is not None:
        return stand_in.unschedulable(reason, message, at)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
    }
    return condition_patch(pod.key, pod.uid, condition, at if is_new else None)
