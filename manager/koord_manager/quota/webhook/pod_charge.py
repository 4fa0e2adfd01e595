"""Charges the quota of a pod that may be kept (gate EnableQuotaAdmission). No IO of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.elastic_quota import RESERVED_QUOTAS
from koord_model.excerpt import excerpt
from koord_model.json_objects import inside
from koord_model.keys import LABEL_QUOTA_NAME
from koord_serving.admission.core.admission import AdmissionOperation, AdmissionRequest

from koord_manager.quota.core.charge import QuotaCharge
from koord_manager.quota.core.view import QuotaView, only_label_counts

GATE = "EnableQuotaAdmission"
_UPDATE_GATE = "EnableQuotaAdmissionOnUpdate"
_ENDED = ("Succeeded", "Failed")


class ChargedPod(NamedTuple):
    """The pod under review; ``old`` are its labels before an update."""

    labels: Mapping[str, str]
    old: Mapping[str, str]
    namespace: str
    requests: Callable[[], Amounts]


async def refusal(admission: AdmissionRequest, pod: ChargedPod, view: QuotaView) -> str:
    """Charge the pod's quota; return why that cannot be, "" if it was, or there is none."""
    try:
        charge = _charge(admission, pod, view)
    except ValueError as error:
        return str(error)
    return await view.charge(charge) if charge is not None else ""


def _charge(admission: AdmissionRequest, pod: ChargedPod, view: QuotaView) -> QuotaCharge | None:
    """Return the charge of a pod, ``None`` if there is none.

    Raises:
        ValueError: the quota that the pod names is not there, or is not one.
    """
    name = _charged_quota(admission.operation, pod, view)
    phase = inside(admission.object, "status").get("phase")
    if not name or name in RESERVED_QUOTAS or phase in _ENDED:
        return None
    there = view.quotas.all_of(name)
    if len(there) != 1:
        count = "more than one ElasticQuota has" if there else "no ElasticQuota has"
        raise ValueError(f"label {LABEL_QUOTA_NAME} is {excerpt(name)}; {count} that name")
    return QuotaCharge(name, there[0].namespace, pod.requests(), admission.dry_run)


def _charged_quota(operation: AdmissionOperation, pod: ChargedPod, view: QuotaView) -> str:
    name = _named(pod.labels, pod.namespace, view)
    if operation is AdmissionOperation.CREATE:
        return name
    if operation is not AdmissionOperation.UPDATE or not view.gates.get(_UPDATE_GATE):
        return ""
    return "" if name == _named(pod.old, pod.namespace, view) else name


def _named(labels: Mapping[str, str], namespace: str, view: QuotaView) -> str:
    """The quota of the pod's label, there or not, or else of its namespace; "" for none."""
    name = labels.get(LABEL_QUOTA_NAME, "")
    if name or only_label_counts(view):
        return name
    return view.quotas.name_for_namespace(namespace)
