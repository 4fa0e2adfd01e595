"""Traces of a pod's way through the programs, for an OpenTelemetry collector. Off by default.

A program records spans of what has ended. Their parent is a W3C traceparent, which travels with the
pod as an annotation. Nothing of OpenTelemetry is loaded unless there is an endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Protocol

from koord_service.settings import option

_ENDPOINT = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}")
_MILLION = 1_000_000
NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


class TracingSettings(Protocol):
    """The settings of a program that traces."""

    @property
    def tracing_endpoint(self) -> str: ...
    @property
    def tracing_sampling_rate_per_million(self) -> int: ...


class SpanRecorder(Protocol):
    """Receives spans; whatever becomes of them, nobody waits for it."""

    def record(
        self,
        name: str,
        parent: str,
        began: float,
        ended: float,
        attributes: Mapping[str, str | int] = NO_ATTRIBUTES,
    ) -> str:
        """Record a span; return its traceparent, "" if it is not sampled.

        ``parent`` is a traceparent; with any other text a trace begins, for a part of them.
        Times are in seconds since the epoch.
        """
        ...

    def register(self, registry: Any) -> None:
        """Show in a registry of Prometheus' client what became of spans."""


def endpoint_option() -> Any:
    """The flag ``--tracing-endpoint``."""
    return option("", "OTLP collector that gets traces, over gRPC without TLS: HOST:PORT")


def rate_option() -> Any:
    """The flag ``--tracing-sampling-rate-per-million``."""
    return option(0, "traces begun here, of a million; those begun elsewhere go on in any case")


def check_tracing(settings: TracingSettings) -> None:
    """Check the settings.

    Raises:
        ValueError: one line naming the flag, its value and what was expected.
    """
    endpoint, rate = settings.tracing_endpoint, settings.tracing_sampling_rate_per_million
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        raise ValueError(f'--tracing-endpoint is "{endpoint}"; expected HOST:PORT, localhost:4317')
    if not 0 <= rate <= _MILLION:
        flag = "--tracing-sampling-rate-per-million"
        raise ValueError(f"{flag} is {rate}; expected 0 to {_MILLION}")
    if rate and not endpoint:
        flag = "--tracing-sampling-rate-per-million"
        raise ValueError(f"{flag} is {rate}, without --tracing-endpoint; expected both or neither")


@contextmanager
def open_tracing(program: str, settings: TracingSettings) -> Iterator[SpanRecorder | None]:
    """The recorder of this program for as long as it runs, ``None`` without an endpoint.

    Exits with one line if the extra is not installed.
    """
    if not settings.tracing_endpoint:
        yield None
        return
    from koord_service.programs import needs_extra

    with needs_extra(program, "tracing"):
        from koord_service.span_exporter import OtlpRecorder
    rate = settings.tracing_sampling_rate_per_million / _MILLION
    recorder = OtlpRecorder(program, settings.tracing_endpoint, rate)
    try:
        yield recorder
    finally:
        recorder.close()


def pod_attributes(namespace: str, name: str, **more: str | int) -> dict[str, str | int]:
    """Attributes of a pod's span by OpenTelemetry's names, and ``more`` by theirs."""
    return {"k8s.namespace.name": namespace, "k8s.pod.name": name, **more}
