"""Spans reach a collector, and cost nothing where there is none, or it is away."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from koord_service.span_exporter import OtlpRecorder, SpanQueue
from koord_service.tracing import check_tracing, open_tracing
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry

from tests.support.processes import until
from tests.support.trace_collector import TraceCollector

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOW = 1_800_000_000.0


@dataclass(frozen=True)
class Given:
    """Settings of a program."""

    tracing_endpoint: str = ""
    tracing_sampling_rate_per_million: int = 0


def test_spans_arrive_below_their_parent_and_at_the_end_of_the_program() -> None:
    with TraceCollector() as collector:
        with open_tracing("koordlet", Given(collector.address)) as recorder:
            assert recorder is not None
            registry = CollectorRegistry()
            recorder.register(registry)
            context = recorder.record("hook", PARENT, NOW, NOW + 0.5, {"k8s.pod.name": "p"})
            inner = recorder.record("inner", context, NOW, NOW + 0.25)
            assert recorder.record("unsampled", PARENT[:-1] + "0", NOW, NOW) == ""
            assert recorder.record("a trace of its own", "no traceparent", NOW, NOW) == ""
        hook, second = collector.spans
    assert (hook.service, hook.name, hook.attributes) == ("koordlet", "hook", {"k8s.pod.name": "p"})
    assert f"00-{hook.trace}-{hook.parent}-01" == PARENT
    assert (hook.began, hook.ended) == (int(NOW * 1e9), int((NOW + 0.5) * 1e9))
    assert (f"00-{hook.trace}-{hook.id}-01", f"00-{second.trace}-{second.id}-01") == (
        context,
        inner,
    )
    assert (second.trace, second.parent) == (hook.trace, hook.id)
    counted = registry.get_sample_value("pykoord_trace_spans_total", {"outcome": "exported"})
    assert (counted, registry.get_sample_value("pykoord_trace_queue_bytes")) == (2, 0)


def test_traces_begin_at_the_rate() -> None:
    with TraceCollector() as collector:
        recorder = OtlpRecorder("koord-manager", collector.address, 0.25)
        begun = [recorder.record("webhook", "", NOW, NOW) for _ in range(2000)]
        recorder.close()
    assert 350 < sum(map(bool, begun)) == len(collector.spans) < 650


class Away(SpanExporter):
    """A collector that takes no span until it is back."""

    def __init__(self) -> None:
        self.is_back = False
        self.exported = 0

    def export(self, spans: object) -> SpanExportResult:
        if not self.is_back:
            return SpanExportResult.FAILURE
        self.exported += len(spans)  # type: ignore[arg-type]
        return SpanExportResult.SUCCESS


def test_an_outage_costs_neither_time_nor_more_bytes_than_there_are() -> None:
    away = Away()
    queue = SpanQueue(away, most_bytes=100_000)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(queue)
    tracer = provider.get_tracer("test")
    began = time.monotonic()
    for _ in range(1000):
        tracer.start_span("span").end()
        assert queue.held_bytes <= 100_000
    assert time.monotonic() - began < 10.0, "nobody waits"
    until(lambda: queue.held_bytes == 0, "the queue is given up")
    assert queue.counts["dropped"] > 900
    assert queue.counts["dropped"] + queue.counts["failed"] == 1000
    away.is_back = True
    tracer.start_span("span").end()
    until(lambda: queue.counts["exported"] == 1, "it is back")
    queue.close()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (Given("http://c:4317"), '--tracing-endpoint is "http://c:4317"; expected HOST:PORT'),
        (Given("c"), '--tracing-endpoint is "c"; expected HOST:PORT'),
        (Given("c:4317", 1_000_001), "--tracing-sampling-rate-per-million is 1000001; expected 0"),
        (Given("", 5), "is 5, without --tracing-endpoint; expected both or neither"),
    ],
)
def test_bad_settings(given: Given, line: str) -> None:
    with pytest.raises(ValueError, match="--tracing") as caught:
        check_tracing(given)
    assert line in str(caught.value)


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded() -> None:
    code = (
        "import sys\n"
        "from koord_service.tracing import open_tracing\n"
        "class Off: tracing_endpoint = ''\n"
        "with open_tracing('koordlet', Off()) as recorder: assert recorder is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
