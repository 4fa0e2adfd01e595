"""What the API server does when a pod is to be evicted: the rules of the real one.

From Kubernetes' ``pkg/registry/core/pod/storage/eviction.go``. The disruption controller is the
test: it sets a budget's ``status``. Not here: retries on conflicts.
"""

from __future__ import annotations

import copy
from typing import Any

from koord_kube.protocol.api import Object

from tests.support.kube_api.kinds import Key, Refused, bad_request

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)


def check_request(key: Key, body: Object) -> None:
    """What is wrong with a request whatever the pod is."""
    if body.get("kind") != "Eviction" or body.get("apiVersion") != "policy/v1":
        raise bad_request("expected an Eviction of policy/v1")
    meta = body.get("metadata", {})
    if meta.get("name") != key.name:
        raise bad_request("name in URL does not match name in Eviction object")
    if meta.get("namespace", key.namespace) != key.namespace:
        raise bad_request("the namespace of the object does not match that of the request")


def budgets_of(pod: Object, budgets: list[Object]) -> list[Object]:
    """Those that the eviction of a pod has to respect."""
    phase = pod.get("status", {}).get("phase", "Pending")
    if phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]:
        return []
    return [one for one in budgets if _selects(one, pod)]


def failed_status() -> Object:
    """What the real server answers, as no refusal, where there are several budgets."""
    found = Refused(500, "", _SEVERAL).document()
    return {name: one for name, one in found.items() if name not in ("reason", "details")}


def spend(pod: Object, budget: Object) -> Object | None:
    """The budget after the eviction; ``None`` where it need not be spent."""
    budget = copy.deepcopy(budget)
    status: dict[str, Any] = budget.setdefault("status", {})
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _ready(pod) and healthy >= desired > 0:
        return None
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise _violates(f"The disruption budget {name} is still being processed.", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise Refused(403, "Forbidden", "pdb disruptions allowed is negative")
    if allowed == 0:
        needs = f"needs {desired} healthy pods and has {healthy} currently"
        raise _violates(f"The disruption budget {name} {needs}")
    status["disruptionsAllowed"] = allowed - 1
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = "2026-01-01T00:00:00Z"
    return budget


def _violates(cause: str, retry_after: int = 0) -> Refused:
    causes = (("", f"DisruptionBudget: {cause}"),)
    return Refused(429, "TooManyRequests", _VIOLATES, retry_after, causes)


def ending(pod: Object, options: Object) -> Object | None:
    """The pod while its kubelet ends it; ``None``: it goes at once."""
    asked = options.get("gracePeriodSeconds")
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        asked = 0
    grace = pod.get("spec", {}).get("terminationGracePeriodSeconds", 30) if asked is None else asked
    if grace == 0 or not pod.get("spec", {}).get("nodeName"):
        return None
    new = copy.deepcopy(pod)
    new["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
    new["metadata"]["deletionGracePeriodSeconds"] = grace
    return new


def _ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _selects(budget: Object, pod: Object) -> bool:
    """In policy/v1 an empty selector is all pods of the namespace, none is not a valid pod."""
    selector = budget.get("spec", {}).get("selector")
    if selector is None or budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    labels = pod["metadata"].get("labels", {})
    return selector.get("matchLabels", {}).items() <= labels.items()
