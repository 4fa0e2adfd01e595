"""Rules on a pod and the ElasticQuota it is charged to. No IO."""

from __future__ import annotations

from koord_model.elastic_quota import DEFAULT_QUOTA, RESERVED_QUOTAS
from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_PREEMPTIBLE, LABEL_QUOTA_NAME

from koord_manager.pod_webhook.document import PodDocument
from koord_manager.webhooks.cluster_view import ClusterView, quota_for_pod

_PARENTS_GATE = "SupportParentQuotaSubmitPod"


def problems(pod: PodDocument, namespace: str, view: ClusterView) -> list[str]:
    """A parent's quota is its children's: pods are charged to those."""
    if view.gates.get(_PARENTS_GATE):
        return []
    quota = quota_for_pod(pod.labels, namespace, view)
    if quota is None or not quota.is_parent or quota.name == DEFAULT_QUOTA:
        return []
    by = f"label {LABEL_QUOTA_NAME}" if pod.labels.get(LABEL_QUOTA_NAME) else "its namespace"
    name = excerpt(quota.name)
    return [f"its ElasticQuota is {name} (by {by}), a parent; expected one of its children"]


def warnings(pod: PodDocument, view: ClusterView) -> list[str]:
    """That the quota of a pod's label is not there."""
    name = pod.labels.get(LABEL_QUOTA_NAME, "")
    if not name or name in RESERVED_QUOTAS or view.quotas.named(name) is not None:
        return []
    label = f"label {LABEL_QUOTA_NAME} is {excerpt(name)}"
    return [f"{label}, and there is no ElasticQuota of that name: the default quota counts"]


def changed(pod: PodDocument, old: PodDocument) -> list[str]:
    """What an update may not change."""
    now, before = pod.labels.get(LABEL_PREEMPTIBLE), old.labels.get(LABEL_PREEMPTIBLE)
    if now == before:
        return []
    values = f"{excerpt(now or '')} and was {excerpt(before or '')}"
    return [f"label {LABEL_PREEMPTIBLE} is {values}, which cannot change; create another pod"]
