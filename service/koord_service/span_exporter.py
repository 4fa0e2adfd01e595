"""Sends spans to an OpenTelemetry collector, in a thread; loaded only where traces are on.

Spans wait in a queue that is bounded in bytes. While the collector is away they are dropped and
counted: nothing waits, and nothing grows.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from koord_service.build_info import build_info
from koord_service.logs import get_log
from koord_service.tracing import NO_ATTRIBUTES

MOST_BYTES = 4 << 20
"""Of spans that wait."""
_SPAN_BYTES = 3072
"""Memory of a span beside the texts of its attributes; measured: 2.8 KiB."""
_BATCH = 512
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_LIMITS = SpanLimits(max_span_attributes=16, max_attribute_length=256)
_BILLION = 1_000_000_000

log = get_log("tracing")


class SpanQueue(SpanProcessor):
    """Spans that wait for the exporter, and what became of the others."""

    def __init__(self, exporter: SpanExporter, most_bytes: int = MOST_BYTES) -> None:
        self.counts = Counter(exported=0, failed=0, dropped=0)
        self.held_bytes = 0
        self._exporter = exporter
        self._most_bytes = most_bytes
        self._spans: deque[tuple[ReadableSpan, int]] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._is_away = False
        self._thread = threading.Thread(target=self._run, name="tracing", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span, or count it as dropped."""
        size = _size(span)
        with self._lock:
            if self.held_bytes + size > self._most_bytes:
                self.counts["dropped"] += 1
                return
            self.held_bytes += size
            self._spans.append((span, size))
        if len(self._spans) >= _BATCH:
            self._wake.set()

    def close(self) -> None:
        """Send what is left, as far as there is time."""
        self._closed = True
        self._wake.set()
        self._thread.join(_CLOSE_SECONDS)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(_PAUSE_SECONDS)
            self._wake.clear()
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._spans and self._send():
            pass

    def _send(self) -> bool:
        """Send a batch; return True if that went well, so that the next one may follow at once."""
        taken = [self._spans.popleft() for _ in range(min(_BATCH, len(self._spans)))]
        try:
            result = self._exporter.export([span for span, _ in taken])
        except Exception as error:  # whatever it is, it costs these spans only
            log.error("a defect of the exporter of traces", error=repr(error))
            result = SpanExportResult.FAILURE
        is_away = result is not SpanExportResult.SUCCESS
        with self._lock:
            self.held_bytes -= sum(size for _, size in taken)
            self.counts["failed" if is_away else "exported"] += len(taken)
        if is_away and not self._is_away:
            log.warning("cannot export traces; they are dropped until the collector answers")
        elif self._is_away and not is_away:
            log.info("traces are exported again")
        self._is_away = is_away
        return not is_away


def _size(span: ReadableSpan) -> int:
    texts: Iterable[Any] = (span.attributes or {}).items()
    return _SPAN_BYTES + len(span.name) + sum(len(key) + len(str(text)) for key, text in texts)


class OtlpRecorder:
    """Records spans of ``program``; ``rate`` of the traces that begin here are sampled."""

    def __init__(self, program: str, endpoint: str, rate: float) -> None:
        # It logs each attempt; what matters is logged by the queue.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        exporter = OTLPSpanExporter(endpoint, insecure=True, timeout=_TIMEOUT_SECONDS)
        self._queue = SpanQueue(exporter)
        named = {"service.name": program, "service.version": build_info().version}
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(rate)),
            resource=Resource.create(named),
            span_limits=_LIMITS,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._queue)
        self._tracer = provider.get_tracer("pykoord")
        self._texts = TraceContextTextMapPropagator()

    def record(
        self,
        name: str,
        parent: str,
        began: float,
        ended: float,
        attributes: Mapping[str, str | int] = NO_ATTRIBUTES,
    ) -> str:
        """Record a span, as the protocol says."""
        context = self._texts.extract({"traceparent": parent})
        span = self._tracer.start_span(
            name, context, attributes=attributes, start_time=int(began * _BILLION)
        )
        span.end(int(ended * _BILLION))
        made = span.get_span_context()
        if not made.trace_flags.sampled:
            return ""
        return f"00-{format_trace_id(made.trace_id)}-{format_span_id(made.span_id)}-01"

    def register(self, registry: CollectorRegistry) -> None:
        """Show what became of spans."""
        registry.register(SpanMetrics(self._queue))

    def close(self) -> None:
        """Send what is left, for two seconds at most."""
        self._queue.close()


class SpanMetrics(Collector):
    """Counts of spans, read at each scrape."""

    def __init__(self, queue: SpanQueue) -> None:
        self._queue = queue

    def describe(self) -> Sequence[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        spans = CounterMetricFamily(
            "pykoord_trace_spans", "Spans, by what became of them.", labels=["outcome"]
        )
        for outcome, number in self._queue.counts.items():
            spans.add_metric([outcome], number)
        yield spans
        yield GaugeMetricFamily(
            "pykoord_trace_queue_bytes", "Spans that wait.", self._queue.held_bytes
        )
