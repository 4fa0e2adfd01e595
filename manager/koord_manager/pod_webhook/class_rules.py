"""Rules on a pod's quality class, priority class and resources. No IO."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from koord_model.excerpt import excerpt
from koord_model.keys import (
    ANNOTATION_RESERVE_POD,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    LABEL_PRIORITY,
    LABEL_QOS,
)
from koord_model.priority import LABEL_PRIORITY_CLASS, PriorityClass
from koord_model.qos import QoSClass, qos_class

from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.view import PodWebhookView

_SKIP_PRIORITY_GATE = "ColocationProfileSkipValidatingPriority"
_CORE = 1000
"""Millicores."""

_ALLOWED: Mapping[QoSClass, Collection[PriorityClass]] = {
    QoSClass.BE: (PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE),
    QoSClass.LSR: (PriorityClass.PROD,),
}
"""The priority classes that a quality class may go with; others with any."""

_WHOLE_CORES = {QoSClass.LSR, QoSClass.LSE}


def problems(pod: PodDocument) -> list[str]:
    """Return the errors of the pod by itself."""
    found: list[str] = []
    if ANNOTATION_RESERVE_POD in pod.annotations:
        found.append(f"annotation {ANNOTATION_RESERVE_POD} is the scheduler's own; leave it out")
    return found + _batch_without_be(pod) + _pairs(pod) + _cores(pod)


def changed(pod: PodDocument, old: PodDocument, view: PodWebhookView) -> list[str]:
    """Return the errors of an update after the pod has a node, which acts on it.

    Before that the colocation profile controller, for one, may.
    """
    if not old.spec.node_name:
        return []
    found = [
        _changed(f"label {LABEL_QOS}", qos_class(pod.labels), qos_class(old.labels)),
        _changed("the priority class", pod.requested_class(), old.requested_class()),
    ]
    if not view.gates.get(_SKIP_PRIORITY_GATE):
        before, now = old.labels.get(LABEL_PRIORITY, ""), pod.labels.get(LABEL_PRIORITY, "")
        found.append(_changed(f"label {LABEL_PRIORITY}", now, before))
    return [line for line in found if line]


def _changed(what: str, now: str, before: str) -> str:
    if now == before:
        return ""
    return (
        f"{what} is {excerpt(now)} and was {excerpt(before)}, which cannot change on a node; "
        "create another pod"
    )


def _batch_without_be(pod: PodDocument) -> list[str]:
    requests = pod.requests()
    asked = [name for name in (BATCH_CPU, BATCH_MEMORY) if requests.get(name)]
    if not asked or qos_class(pod.labels) is QoSClass.BE:
        return []
    is_now = excerpt(pod.labels[LABEL_QOS]) if LABEL_QOS in pod.labels else "missing"
    return [f"label {LABEL_QOS} is {is_now}; expected {QoSClass.BE} with {' and '.join(asked)}"]


def _pairs(pod: PodDocument) -> list[str]:
    qos, asked = qos_class(pod.labels), pod.requested_class()
    allowed = _ALLOWED.get(qos)
    if allowed is None or asked in allowed:
        return []
    by = (
        f"label {LABEL_PRIORITY_CLASS}"
        if LABEL_PRIORITY_CLASS in pod.labels
        else f"spec.priority {'unset' if pod.spec.priority is None else pod.spec.priority}"
    )
    expected = f"{' or '.join(allowed)} with label {LABEL_QOS} {qos}"
    return [f"the priority class is {excerpt(asked)} ({by}); expected {expected}"]


def _cores(pod: PodDocument) -> list[str]:
    qos = qos_class(pod.labels)
    millicores = pod.requests().get(CPU, 0)
    if qos not in _WHOLE_CORES or (millicores > 0 and millicores % _CORE == 0):
        return []
    expected = f"whole cores, 1 or more, with label {LABEL_QOS} {qos}"
    return [f"its containers request {millicores}m CPU together; expected {expected}"]
