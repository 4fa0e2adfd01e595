"""Charges the quota of a pod that may be kept (gate EnableQuotaAdmission). No IO of its own."""

from __future__ import annotations

from koord_model.elastic_quota import RESERVED_QUOTAS
from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_QUOTA_NAME
from koord_serving.admission.core.admission import (
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

from koord_manager.pod_webhook import document, scope
from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.validating import validate_pod
from koord_manager.profiles.core.placing import inside
from koord_manager.quota.core.charge import QuotaCharge
from koord_manager.webhooks.cluster_view import ClusterView

_GATE = "EnableQuotaAdmission"
_UPDATE_GATE = "EnableQuotaAdmissionOnUpdate"
_LABEL_ALONE_GATE = "DisableDefaultQuota"
_ENDED = ("Succeeded", "Failed")


async def admit_pod(admission: AdmissionRequest, view: ClusterView) -> AdmissionResponse:
    """As ``validate_pod`` answers; what it admits has to fit the pod's quota, too."""
    response = validate_pod(admission, view)
    if response.refusal or not view.gates.get(_GATE) or not scope.concerns(admission, view):
        return response
    pod = document.read(admission.object)
    about = document.about(pod, scope.namespace_of(admission))
    try:
        charge = _charge(admission, pod, view)
    except ValueError as error:
        return AdmissionResponse(refusal=f"{about}: {error}")
    refusal = await view.charge(charge) if charge is not None else ""
    return AdmissionResponse(refusal=f"{about}: {refusal}") if refusal else response


def _charge(admission: AdmissionRequest, pod: PodDocument, view: ClusterView) -> QuotaCharge | None:
    """What is to be charged, ``None`` for nothing.

    Raises:
        ValueError: the quota that the pod names is not there, or is not one.
    """
    name = _charged_quota(admission, pod, view)
    phase = inside(admission.object, "status").get("phase")
    if not name or name in RESERVED_QUOTAS or phase in _ENDED:
        return None
    there = view.quotas.all_of(name)
    if len(there) != 1:
        count = "more than one ElasticQuota has" if there else "no ElasticQuota has"
        raise ValueError(f"label {LABEL_QUOTA_NAME} is {excerpt(name)}; {count} that name")
    return QuotaCharge(name, there[0].namespace, pod.requests(), admission.dry_run)


def _charged_quota(admission: AdmissionRequest, pod: PodDocument, view: ClusterView) -> str:
    namespace = scope.namespace_of(admission)
    name = _named(pod, namespace, view)
    if admission.operation is AdmissionOperation.CREATE:
        return name
    if admission.operation is not AdmissionOperation.UPDATE or not view.gates.get(_UPDATE_GATE):
        return ""
    before = _named(document.read(admission.old), namespace, view)
    return "" if before == name else name


def _named(pod: PodDocument, namespace: str, view: ClusterView) -> str:
    """The quota of the pod's label, there or not, or else of its namespace; "" for none."""
    name = pod.labels.get(LABEL_QUOTA_NAME, "")
    if name or view.gates.get(_LABEL_ALONE_GATE):
        return name
    return view.quotas.name_for_namespace(namespace)
