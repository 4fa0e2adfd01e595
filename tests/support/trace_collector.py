"""A double of an OpenTelemetry collector: OTLP over gRPC by the official messages, in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as rpc

from tests.support.ports import free_port


class CollectedSpan(NamedTuple):
    """A span as it arrived; ``began`` and ``ended`` are in nanoseconds since the epoch."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    attributes: dict[str, Any]


class TraceCollector(rpc.TraceServiceServicer):  # type: ignore[misc]
    """Serves from ``with`` to its end; what is wrong with a span is refused, as collectors do."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.address = f"{host}:{port or free_port()}"
        self.spans: list[CollectedSpan] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        rpc.add_TraceServiceServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop(None).wait()

    def Export(
        self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        for of_resource in request.resource_spans:
            service = _values(of_resource.resource.attributes)["service.name"]
            for scope in of_resource.scope_spans:
                for span in scope.spans:
                    ids = (len(span.trace_id), len(span.span_id), len(span.parent_span_id))
                    if ids not in ((16, 8, 8), (16, 8, 0)) or not (
                        0 < span.start_time_unix_nano <= span.end_time_unix_nano
                    ):
                        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"span {span}")
                    self.spans.append(
                        CollectedSpan(
                            service,
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            _values(span.attributes),
                        )
                    )
        return pb.ExportTraceServiceResponse()

    def names(self, trace: str) -> set[str]:
        """The names of a trace's spans."""
        return {span.name for span in self.spans if span.trace == trace}


def _values(attributes: Any) -> dict[str, Any]:
    return {
        one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value")
        for one in attributes
    }
