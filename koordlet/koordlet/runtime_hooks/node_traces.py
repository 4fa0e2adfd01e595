"""Spans of a pod's way through koordlet: hooks that were answered, files that were written."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

from koord_hooks.stages import Stage
from koord_host.planning.outcomes import Outcome
from koord_model.keys import ANNOTATION_TRACEPARENT
from koord_model.pod import Container, Pod
from koord_service.tracing import SpanRecorder, pod_attributes

from koordlet.runtime_hooks.reconciler.reconciler import ReconcileResult
from koordlet.states_informer.state.pod_inventory import PodRecord


class NodeTraces:
    """Records spans by the traceparent that a pod brings along."""

    def __init__(self, tracing: SpanRecorder) -> None:
        self._tracing = tracing

    def hooked(self, stage: Stage, subject: Pod | Container, seconds: float) -> None:
        """Record an answer that took some seconds, just now."""
        pod = subject if isinstance(subject, Pod) else subject.pod
        attributes = pod_attributes(pod.namespace, pod.name)
        if isinstance(subject, Container):
            attributes["k8s.container.name"] = subject.name
        now = time.time()
        self._tracing.record(f"hook {stage}", _parent(pod), now - seconds, now, attributes)

    def written(self, done: ReconcileResult, records: Iterable[PodRecord]) -> None:
        """Record a round's writes to the cgroups of pods that are traced."""
        knobs: dict[str, set[str]] = defaultdict(set)
        for result in done.writes.results:
            if result.outcome is Outcome.WRITTEN and result.pod:
                knobs[result.pod].add(result.target.knob)
        if not knobs:
            return
        now = time.time()
        for record in records:
            pod, parent = record.pod, _parent(record.pod)
            if parent and (written := knobs.get(pod.full_name)):
                attributes = pod_attributes(pod.namespace, pod.name)
                attributes["cgroup.files"] = " ".join(sorted(written))
                self._tracing.record("write cgroups", parent, now - done.seconds, now, attributes)


def _parent(pod: Pod) -> str:
    return pod.annotations.get(ANNOTATION_TRACEPARENT, "")
