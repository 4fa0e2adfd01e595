"""Validation of a pod: all of its errors in one answer. No IO.

An update is refused only for what it makes wrong: a pod that was kept before a rule was there
can still be labelled, and end.
"""

from __future__ import annotations

from koord_kube.core.events import reference
from koord_kube.protocol.resources import PODS
from koord_model.qos import unknown_word
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

from koord_manager.pod_webhook import (
    annotation_rules,
    batch_resize,
    class_rules,
    device_rules,
    document,
    enhanced_rules,
    katalyst_words,
    scope,
)
from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.view import PodWebhookView
from koord_manager.quota.webhook import pod_charge, pod_rules


async def admit_pod(admission: AdmissionRequest, view: PodWebhookView) -> AdmissionResponse:
    """As ``validate_pod`` answers; what it admits has to fit the pod's quota, too."""
    response = validate_pod(admission, view)
    if response.refusal or not scope.concerns(admission, view):
        return response
    if view.gates.get(pod_charge.GATE):
        response = await _charge(admission, view, response)
    if not response.refusal and view.gates.get(katalyst_words.GATE):
        _report_conflicts(admission, view)
    return response


async def _charge(
    admission: AdmissionRequest, view: PodWebhookView, response: AdmissionResponse
) -> AdmissionResponse:
    pod, namespace = document.read(admission.object), scope.namespace_of(admission)
    old = document.read(admission.old).labels if admission.old else {}
    quota = pod_charge.ChargedPod(pod.labels, old, namespace, pod.requests)
    refusal = await pod_charge.refusal(admission, quota, view)
    about = document.about(pod, namespace)
    return AdmissionResponse(refusal=f"{about}: {refusal}") if refusal else response


def _report_conflicts(admission: AdmissionRequest, view: PodWebhookView) -> None:
    """Have an Event written: authors of templates never see a warning of the webhook."""
    if admission.operation is not AdmissionOperation.CREATE or admission.dry_run:
        return
    metadata = admission.object["metadata"]
    lines = katalyst_words.conflicts(document.read(admission.object))
    if lines and metadata.get("name"):
        namespace, uid = scope.namespace_of(admission), metadata.get("uid", "")
        about = reference(PODS, metadata["name"], namespace, uid)
        view.record(about, "KatalystWordsIgnored", "; ".join(lines))


def validate_pod(admission: AdmissionRequest, view: PodWebhookView) -> AdmissionResponse:
    """Admitted, or refused with a line that has each problem, its value and a way out."""
    if admission.operation not in (AdmissionOperation.CREATE, AdmissionOperation.UPDATE):
        return ADMITTED
    if not scope.concerns(admission, view):
        return ADMITTED
    try:
        pod = document.read(admission.object)
        old = (
            document.read(admission.old)
            if admission.operation is AdmissionOperation.UPDATE
            else None
        )
    except ValueError as error:
        return AdmissionResponse(refusal=str(error), code=400)
    namespace = scope.namespace_of(admission)
    problems, warnings = _problems(pod, namespace, view)
    if old is not None:
        had, _ = _problems(old, namespace, view)
        beyond, more = batch_resize.problems(pod, old, namespace, view)
        warnings += more
        changed = (
            class_rules.changed(pod, old, view) + pod_rules.changed(pod.labels, old.labels) + beyond
        )
        problems = changed + [problem for problem in problems if problem not in had]
    warnings += annotation_rules.warnings(pod, namespace, old.annotations if old else {})
    if old is None or old.labels != pod.labels:
        warnings += pod_rules.warnings(pod.labels, view)
    word = unknown_word(pod.labels)
    if not problems:
        return AdmissionResponse(warnings=(*warnings, word) if word else tuple(warnings))
    return AdmissionResponse(refusal=f"{document.about(pod, namespace)}: {'; '.join(problems)}")


def _problems(
    pod: PodDocument, namespace: str, view: PodWebhookView
) -> tuple[list[str], list[str]]:
    """Return the errors of the pod by itself, and lines on rules that could not be used."""
    missing, warnings = enhanced_rules.problems(pod, namespace, view)
    found = [
        *annotation_rules.problems(pod),
        *class_rules.problems(pod),
        *pod_rules.problems(pod.labels, namespace, view),
        *device_rules.problems(pod, view),
        *missing,
    ]
    return found, warnings
