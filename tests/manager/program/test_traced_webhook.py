"""A trace begins with a new pod, and goes on where it has begun elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from koord_manager.program.traced_webhook import traced
from koord_manager.webhooks.cluster_view import ClusterView
from koord_manager.webhooks.table import TABLE
from koord_model.keys import ANNOTATION_TRACEPARENT
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

from tests.support.recorded_spans import PARENT, RecordedSpans

VIEW = cast("ClusterView", None)
UNSAMPLED = PARENT[:-1] + "0"
POD: dict[str, Any] = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "spec": {}}
REQUEST = AdmissionRequest("1", AdmissionOperation.CREATE, "pods", namespace="shop", object=POD)


def answer(
    request: AdmissionRequest, verdict: AdmissionResponse = ADMITTED
) -> tuple[AdmissionResponse, RecordedSpans]:
    """The API server's answer from a webhook that says this, and the spans."""
    spans = RecordedSpans()
    row = replace(TABLE[0], handler=lambda _request, _view: verdict)
    said = traced(row, spans)(request, VIEW)
    assert isinstance(said, AdmissionResponse)
    return said, spans


@pytest.mark.parametrize("changed", [None, {**POD, "spec": {"priority": 1}}])
def test_a_new_pod_takes_the_trace_along(changed: dict[str, Any] | None) -> None:
    said, spans = answer(REQUEST, AdmissionResponse(object=changed))
    assert said.object is not None
    context = said.object["metadata"]["annotations"].pop(ANNOTATION_TRACEPARENT)
    assert context.endswith("-01")
    assert said.object == (changed or POD), "and nothing else changes"
    assert ANNOTATION_TRACEPARENT not in POD["metadata"]["annotations"], "a request is not changed"
    (span,) = spans.spans
    assert (span.attributes["k8s.pod.name"], span.attributes["k8s.namespace.name"]) == ("p", "shop")


def annotated(text: str) -> AdmissionRequest:
    pod = {"metadata": {"name": "p", "annotations": {ANNOTATION_TRACEPARENT: text}}}
    return replace(REQUEST, object=pod)


def test_a_trace_that_began_elsewhere_goes_on() -> None:
    said, spans = answer(annotated(PARENT))
    assert said is ADMITTED
    assert [span.parent for span in spans.spans] == [PARENT]


def test_what_is_no_trace_is_replaced() -> None:
    said, _ = answer(annotated("none"))
    assert said.object is not None
    assert said.object["metadata"]["annotations"][ANNOTATION_TRACEPARENT].endswith("-01")


@pytest.mark.parametrize(
    ("request_", "verdict", "spans"),
    [
        (annotated(UNSAMPLED), ADMITTED, 0),
        (replace(REQUEST, dry_run=True), ADMITTED, 0),
        (replace(REQUEST, operation=AdmissionOperation.UPDATE), ADMITTED, 0),
        (replace(REQUEST, object={"metadata": {"annotations": 5}}), ADMITTED, 0),
        (REQUEST, AdmissionResponse(refusal="no"), 1),
    ],
    ids=["unsampled", "dry run", "update", "no annotations", "refused"],
)
def test_other_verdicts_stay(
    request_: AdmissionRequest, verdict: AdmissionResponse, spans: int
) -> None:
    said, recorded = answer(request_, verdict)
    assert said is verdict
    assert len(recorded.spans) == spans


def test_other_webhooks_are_not_touched() -> None:
    assert [row.name for row in TABLE if traced(row, RecordedSpans()) is not row.handler] == [
        "mpod-create.koordinator.sh"
    ]
    assert all(traced(row, None) is row.handler for row in TABLE)
