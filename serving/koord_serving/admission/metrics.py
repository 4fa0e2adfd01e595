"""Counters of the webhooks' server."""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class AdmissionOutcome(StrEnum):
    """Outcome of a request."""

    ADMITTED = "admitted"
    CHANGED = "changed"
    REFUSED = "refused"
    UNKNOWN_CALLER = "unknown_caller"
    """The caller is not accepted, or could not be identified."""
    MALFORMED = "malformed"
    """It was no AdmissionReview."""
    FAILED = "failed"
    """The webhook raised something."""
    LATE = "late"
    """The client has given up, or the body did not arrive in time."""
    BUSY = "busy"
    """More were under way than there is room for."""
    LEFT = "left"
    """The client went away in the middle of its request."""


class WebhookMetrics:
    """The counters; ``webhook`` is the path, ``operation`` "" where that was not understood."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "koord_manager_webhook_requests",
            "Admission requests by what became of them.",
            ("webhook", "operation", "outcome"),
            registry=registry,
        )
        self.seconds = Histogram(
            "koord_manager_webhook_seconds",
            "Time from a request's head to its answer.",
            ("webhook",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "koord_manager_webhook_in_flight",
            "Admission requests under way.",
            registry=registry,
        )
