"""koordlet's spans: answers to hooks, and writes to the cgroups of traced pods."""

from __future__ import annotations

from dataclasses import replace

from koord_hooks.stages import Stage
from koord_host.knobs.layout import Driver, Layout
from koord_model.keys import ANNOTATION_TRACEPARENT
from koordlet.runtime_hooks.node_traces import NodeTraces

from tests.support.node import NodeFixture
from tests.support.node.pods import JOB
from tests.support.recorded_spans import PARENT, RecordedSpans

LAYOUT = Layout(2, Driver.CGROUPFS)


async def test_spans_are_below_what_the_pod_brings_along(node: NodeFixture) -> None:
    job = replace(JOB, annotations={**JOB.annotations, ANNOTATION_TRACEPARENT: PARENT})
    container, spans = job.container(LAYOUT), RecordedSpans()
    node.start(job)
    loop = node.start_koordlet("batchresource").reconcile_loop
    loop.saw(Stage.POST_START_CONTAINER, container)
    traces = NodeTraces(spans)
    traces.hooked(Stage.PRE_CREATE_CONTAINER, container, 0.25)
    for _ in range(2):  # the second round finds all as it should be
        traces.written(await loop.reconcile(), loop.inventory.records())
    hook, written = spans.spans
    assert (hook.name, hook.parent, hook.seconds) == ("hook PreCreateContainer", PARENT, 0.25)
    assert hook.attributes["k8s.container.name"] == container.name
    assert (written.name, written.parent) == ("write cgroups", PARENT)
    assert "cpu.cfs_quota_us" in written.attributes["cgroup.files"].split()


async def test_writes_for_other_pods_begin_no_trace(node: NodeFixture) -> None:
    spans = RecordedSpans()
    node.start(JOB)
    loop = node.start_koordlet("batchresource").reconcile_loop
    loop.saw(Stage.POST_START_CONTAINER, JOB.container(LAYOUT))
    done = await loop.reconcile()
    assert done.writes.results
    NodeTraces(spans).written(done, loop.inventory.records())
    assert not spans.spans
