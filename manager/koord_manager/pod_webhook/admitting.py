"""Admits pods: those that are valid, once their quota is charged. No IO of its own."""

from __future__ import annotations

from koord_serving.admission.core.admission import AdmissionRequest, AdmissionResponse

from koord_manager.pod_webhook import document, scope
from koord_manager.pod_webhook.validating import validate_pod
from koord_manager.pod_webhook.view import PodWebhookView
from koord_manager.quota.webhook import pod_charge


async def admit_pod(admission: AdmissionRequest, view: PodWebhookView) -> AdmissionResponse:
    """As ``validate_pod`` answers; what it admits has to fit the pod's quota, too."""
    response = validate_pod(admission, view)
    if response.refusal or not view.gates.get(pod_charge.GATE):
        return response
    if not scope.concerns(admission, view):
        return response
    pod, namespace = document.read(admission.object), scope.namespace_of(admission)
    old = document.read(admission.old).labels if admission.old else {}
    quota = pod_charge.ChargedPod(pod.labels, old, namespace, pod.requests)
    refusal = await pod_charge.refusal(admission, quota, view)
    about = document.about(pod, namespace)
    return AdmissionResponse(refusal=f"{about}: {refusal}") if refusal else response
