"""Spans of intercepted calls, and within them of the time for which hooks held them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from koord_model.keys import ANNOTATION_TRACEPARENT
from koord_service.tracing import SpanRecorder, pod_attributes

from koord_proxy.rules.records import labels_of, names_of

if TYPE_CHECKING:
    from koord_proxy.interceptor import CallDecision, InterceptedCall


class CallTraces:
    """Records calls by the traceparent that a pod brings along."""

    def __init__(self, tracing: SpanRecorder) -> None:
        self._tracing = tracing

    def decided(self, call: InterceptedCall, decision: CallDecision) -> None:
        """Note when a held call went on; one that was refused is over."""
        call.decided, call.result = time.time(), decision.result
        if decision.refusal:
            self._record(call, decision.result)

    def ended(self, call: InterceptedCall, response: bytes | None) -> None:
        """Record a call that the runtime has answered, ``None``: with an error."""
        self._record(call, call.result if response is not None else "failed")

    def _record(self, call: InterceptedCall, result: str) -> None:
        if call.hook_request is None:
            return
        _, annotations = labels_of(call.hook_request)
        names, method = names_of(call.hook_request), call.method.name
        namespace, _, name = (names["pod"] or "").partition("/")
        attributes = pod_attributes(namespace, name, method=method, result=result)
        if container := names["container"]:
            attributes["k8s.container.name"] = container
        parent = annotations.get(ANNOTATION_TRACEPARENT, "")
        context = self._tracing.record(method, parent, call.began, time.time(), attributes)
        if context and call.decided:
            self._tracing.record("hooks", context, call.began, call.decided)
