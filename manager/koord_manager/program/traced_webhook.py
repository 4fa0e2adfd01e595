"""Begins the trace of a new pod: the webhook's span, whose context the pod takes along."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from dataclasses import replace

from koord_model.keys import ANNOTATION_TRACEPARENT
from koord_service.tracing import SpanRecorder, pod_attributes
from koord_serving.admission.core.admission import (
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
    Object,
    Webhook,
)
from koord_serving.admission.core.configurations import WebhookDefinition

from koord_manager.webhooks.cluster_view import ClusterView


def traced(
    row: WebhookDefinition[ClusterView], tracing: SpanRecorder | None
) -> Webhook[ClusterView]:
    """The handler of a webhook; that which mutates new pods is traced."""
    webhook = row.handler
    if tracing is None or row.resource != "pods" or not row.mutating:
        return webhook

    def answer(
        admission: AdmissionRequest, view: ClusterView
    ) -> AdmissionResponse | Awaitable[AdmissionResponse]:
        began = time.time()
        verdict = webhook(admission, view)
        if isinstance(verdict, Awaitable) or not _is_new(admission):
            return verdict
        return _with_context(tracing, admission, verdict, began)

    return answer


def _is_new(admission: AdmissionRequest) -> bool:
    return admission.operation is AdmissionOperation.CREATE and not admission.dry_run


def _with_context(
    tracing: SpanRecorder, admission: AdmissionRequest, verdict: AdmissionResponse, began: float
) -> AdmissionResponse:
    """The verdict with the trace's context; a pod that has one already keeps it."""
    pod = verdict.object if verdict.object is not None else admission.object
    metadata = pod.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations") or {}, dict):
        return verdict  # the API server refuses it
    annotations = metadata.get("annotations") or {}
    parent = str(annotations.get(ANNOTATION_TRACEPARENT, ""))
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    attributes = pod_attributes(admission.namespace, name, refusal=verdict.refusal)
    context = tracing.record("webhook mutate-pod", parent, began, time.time(), attributes)
    if not context or verdict.refusal or _same_trace(parent, context):
        return verdict
    annotated: Object = {
        **pod,
        "metadata": {
            **metadata,
            "annotations": {**annotations, ANNOTATION_TRACEPARENT: context},
        },
    }
    return replace(verdict, object=annotated)


def _same_trace(parent: str, context: str) -> bool:
    """True if both traceparents have the same trace identifier."""
    return parent.split("-")[1:2] == context.split("-")[1:2]
