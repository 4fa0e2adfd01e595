"""Rules on a pod and the ElasticQuota it is charged to. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_model.elastic_quota import DEFAULT_QUOTA, RESERVED_QUOTAS
from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_PREEMPTIBLE, LABEL_QUOTA_NAME

from koord_manager.quota.core.view import QuotaView, quota_for_pod

_PARENTS_GATE = "SupportParentQuotaSubmitPod"


def problems(labels: Mapping[str, str], namespace: str, view: QuotaView) -> list[str]:
    """A parent's quota is its children's: pods are charged to those."""
    if view.gates.get(_PARENTS_GATE):
        return []
    quota = quota_for_pod(labels, namespace, view)
    if quota is None or not quota.is_parent or quota.name == DEFAULT_QUOTA:
        return []
    by = f"label {LABEL_QUOTA_NAME}" if labels.get(LABEL_QUOTA_NAME) else "its namespace"
    name = excerpt(quota.name)
    return [f"its ElasticQuota is {name} (by {by}), a parent; expected one of its children"]


def warnings(labels: Mapping[str, str], view: QuotaView) -> list[str]:
    """That the quota of a pod's label is not there."""
    name = labels.get(LABEL_QUOTA_NAME, "")
    if not name or name in RESERVED_QUOTAS or view.quotas.named(name) is not None:
        return []
    label = f"label {LABEL_QUOTA_NAME} is {excerpt(name)}"
    return [f"{label}, and there is no ElasticQuota of that name: the default quota counts"]


def changed(labels: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """Return the errors of an update."""
    now, before = labels.get(LABEL_PREEMPTIBLE), old.get(LABEL_PREEMPTIBLE)
    if now == before:
        return []
    values = f"{excerpt(now or '')} and was {excerpt(before or '')}"
    return [f"label {LABEL_PREEMPTIBLE} is {values}, which cannot change; create another pod"]
