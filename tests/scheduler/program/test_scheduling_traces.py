"""The scheduler's spans, and what a traceparent does not change: the class of a pod."""

from __future__ import annotations

import json

from koord_model.keys import ANNOTATION_TRACEPARENT
from koord_scheduler.framework.cluster_kinds import pod_kind
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.device_share.plugin import DeviceShare
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource
from koord_scheduler.program.scheduling_traces import SchedulingTraces
from koord_scheduler.state.pod_reader import ClusterPod

from tests.support.recorded_spans import PARENT, RecordedSpans

OTHER = PARENT.replace("0af7", "1bf8")


class TracedScheduler:
    """One by whose clock it is ``now``, and the spans of its pods."""

    def __init__(self) -> None:
        plugins = (EnabledPlugin(NodeNUMAResource()), EnabledPlugin(DeviceShare()))
        self.scheduler = Scheduler([Profile("default-scheduler", plugins)])
        self.spans, self.now = RecordedSpans(), 100.0
        clocks = (lambda: self.now, lambda: self.now + 1e9)
        self.traces = SchedulingTraces(self.spans, self.scheduler.nodes, *clocks)
        self._kind = pod_kind(self.scheduler, lambda: self.now)

    def add(self, name: str, traceparent: object) -> ClusterPod:
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        annotations = {ANNOTATION_TRACEPARENT: traceparent}
        metadata = {"name": name, "namespace": "shop", "uid": name, "annotations": annotations}
        document = {"metadata": metadata, "spec": {"containers": [container]}}
        pod: ClusterPod = self._kind.read(json.dumps(document).encode())
        self._kind.put(f"shop/{name}", pod)
        return pod

    def bind(self, pod: ClusterPod) -> None:
        """The pod waits for 5 s, its decision takes 1 s, its binding 2 s."""
        placement = Placement(self.scheduler.queue.pods[pod.key], "n1")
        self.now += 6
        self.traces.placed(placement, 1.0)
        self.now += 2
        self.traces.bound(placement, pod)


def test_the_steps_of_a_pod_are_below_its_span() -> None:
    traced = TracedScheduler()
    traced.bind(traced.add("p", PARENT))
    schedule, *steps = traced.spans.spans
    assert (schedule.name, schedule.parent, schedule.seconds) == ("schedule", PARENT, 8.0)
    assert schedule.attributes["k8s.node.name"] == "n1"
    assert [(step.name, step.seconds) for step in steps] == [
        *(("queue", 5.0), ("decide", 1.0), ("bind", 2.0))
    ]
    assert len({step.parent for step in steps}) == 1


def test_pods_that_differ_by_their_trace_are_alike() -> None:
    traced = TracedScheduler()
    one, two = traced.add("one", PARENT), traced.add("two", OTHER)
    assert one.waiting is not None
    assert two.waiting is not None
    assert one.waiting.usage is two.waiting.usage, "the second was not compiled again"
    traced.bind(two)
    assert traced.spans.spans[0].parent == OTHER


def test_what_is_no_text_costs_no_pod() -> None:
    traced = TracedScheduler()
    assert traced.add("p", 5).waiting is not None
