"""Rules on a pod and the ElasticQuota it is charged to. No IO."""

from __future__ import annotations

from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_PREEMPTIBLE, LABEL_QUOTA_IS_PARENT, LABEL_QUOTA_NAME

from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.quotas import quota_of
from koord_manager.profiles.core.placing import inside
from koord_manager.webhooks.cluster_view import ClusterView

_PARENTS_GATE = "SupportParentQuotaSubmitPod"
_DEFAULT = "koordinator-default-quota"


def problems(pod: PodDocument, namespace: str, view: ClusterView) -> list[str]:
    """A parent's quota is its children's: pods are charged to those."""
    if view.gates.get(_PARENTS_GATE):
        return []
    metadata = inside(quota_of(pod.labels, namespace, view) or {}, "metadata")
    if inside(metadata, "labels").get(LABEL_QUOTA_IS_PARENT) != "true":
        return []
    name = str(metadata.get("name", ""))
    if name == _DEFAULT:
        return []
    by = f"label {LABEL_QUOTA_NAME}" if pod.labels.get(LABEL_QUOTA_NAME) else "its namespace"
    return [
        f"its ElasticQuota is {excerpt(name)} (by {by}), a parent; expected one of its children"
    ]


def changed(pod: PodDocument, old: PodDocument) -> list[str]:
    """What an update may not change."""
    now, before = pod.labels.get(LABEL_PREEMPTIBLE), old.labels.get(LABEL_PREEMPTIBLE)
    if now == before:
        return []
    values = f"{excerpt(now or '')} and was {excerpt(before or '')}"
    return [f"label {LABEL_PREEMPTIBLE} is {values}, which cannot change; create another pod"]
