"""Which ElasticQuota a pod is charged to. No IO."""

from __future__ import annotations

import json
from collections.abc import Mapping

from koord_model.keys import ANNOTATION_QUOTA_NAMESPACES, LABEL_QUOTA_NAME
from koord_serving.admission.core.admission import Object

from koord_manager.profiles.core.placing import inside
from koord_manager.webhooks.cluster_view import ClusterView

_LABEL_ALONE_GATE = "DisableDefaultQuota"


def quota_of(labels: Mapping[str, str], namespace: str, view: ClusterView) -> Object | None:
    """The quota that the pod's label names, or else its namespace's; ``None`` for the default one.

    A namespace has the quota of its name, or the one whose annotation lists it.
    """
    named = labels.get(LABEL_QUOTA_NAME)
    if named:
        return _named(named, view.quotas)
    if view.gates.get(_LABEL_ALONE_GATE):
        return None
    return _named(namespace, view.quotas) or _bound(namespace, view.quotas)


def _named(name: str, quotas: Mapping[str, Object]) -> Object | None:
    ending = f"/{name}"
    return next((quota for key, quota in quotas.items() if key.endswith(ending)), None)


def _bound(namespace: str, quotas: Mapping[str, Object]) -> Object | None:
    return next((quota for _, quota in sorted(quotas.items()) if _lists(quota, namespace)), None)


def _lists(quota: Object, namespace: str) -> bool:
    written = inside(quota, "metadata", "annotations").get(ANNOTATION_QUOTA_NAMESPACES)
    if not isinstance(written, str) or namespace not in written:
        return False
    try:
        listed = json.loads(written)
    except (ValueError, RecursionError):
        return False
    return isinstance(listed, list) and namespace in listed
