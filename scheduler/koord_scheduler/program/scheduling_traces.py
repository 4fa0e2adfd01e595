"""Spans of a pod's way through the scheduler: the queue, the decision, the binding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from koord_model.keys import ANNOTATION_TRACEPARENT
from koord_service.tracing import SpanRecorder, pod_attributes

from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.objects.annotations import read_annotation_apart
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState
from koord_scheduler.state.pod_parts import PodPart
from koord_scheduler.state.pod_reader import ClusterPod

_MOST = 16_384
"""Decisions on their way to a binding; of others their time is not known."""
_TRACEPARENT: PodPart[str] = PodPart("traceparent", "")


class TracedPods(FeatureState):
    """Keeps the traceparent of each pod that has one."""

    def pod_parts(self, pod: PodInfo) -> Iterator[tuple[PodPart[Any], Any]]:
        """Its annotation, as it is."""
        annotations = pod.metadata.annotations
        if annotations is not None and (found := annotations.apart):
            yield _TRACEPARENT, str(found.get(ANNOTATION_TRACEPARENT, ""))


class _Decision(NamedTuple):
    """Time of a decision, monotonic, and how long it took."""

    at: float
    seconds: float


class SchedulingTraces:
    """Records the way of each pod once it has its node."""

    def __init__(
        self,
        tracing: SpanRecorder,
        nodes: ClusterState,
        monotonic: Callable[[], float] = time.monotonic,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        """To be made before any pod is read."""
        read_annotation_apart(ANNOTATION_TRACEPARENT)
        nodes.use(TracedPods)
        self._tracing = tracing
        self._monotonic = monotonic
        self._epoch = epoch
        self._decided: dict[str, _Decision] = {}

    def placed(self, placement: Placement, seconds: float) -> None:
        """Note the time of a decision that took some seconds."""
        if len(self._decided) < _MOST:
            self._decided[placement.pod.key] = _Decision(self._monotonic(), seconds)

    def not_bound(self, pod: QueuedPod) -> None:
        """Forget a decision."""
        self._decided.pop(pod.key, None)

    def bound(self, placement: Placement, pod: ClusterPod | None) -> None:
        """Record the spans of a pod; ``pod`` is as the API server has it, if it still does."""
        queued, now = placement.pod, self._monotonic()
        decision = self._decided.pop(queued.key, None)
        parent = pod.parts.of(_TRACEPARENT) if pod is not None else ""
        epoch = self._epoch() - now
        namespace, _, name = queued.key.partition("/")
        attributes = pod_attributes(namespace, name, attempts=queued.attempts + 1)
        attributes["k8s.node.name"] = placement.node
        context = self._tracing.record(
            "schedule", parent, epoch + queued.added, epoch + now, attributes
        )
        if not context or decision is None:
            return
        began = decision.at - decision.seconds
        for step, since, until in (
            ("queue", min(queued.added, began), began),
            ("decide", began, decision.at),
            ("bind", decision.at, now),
        ):
            self._tracing.record(step, context, epoch + since, epoch + until)
