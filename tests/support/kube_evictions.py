"""What the API server does when a pod is to be evicted: the rules of the real one.

Read off Kubernetes' ``pkg/registry/core/pod/storage/eviction.go``. The disruption controller
is the test: it sets a budget's ``status``. Not here: dry runs, retries on conflicts.
"""

from __future__ import annotations

import copy
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource

PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)

_VERSIONS = ("policy/v1", "policy/v1beta1")
_ENDED = ("Succeeded", "Failed", "Pending")
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)


class EvictionRefused(Exception):
    """``asked`` is seconds for Retry-After, 0 for none; ``cause`` what the budget says."""

    def __init__(
        self, status: int, reason: str, message: str, asked: int = 0, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.asked, self.cause = status, reason, asked, cause


def check_request(name: str, namespace: str, body: Object) -> None:
    """What is wrong with a request whatever the pod is."""
    if body.get("kind") != "Eviction" or body.get("apiVersion") not in _VERSIONS:
        raise EvictionRefused(400, "BadRequest", "expected an Eviction of policy/v1")
    meta = body.get("metadata", {})
    if meta.get("name") != name:
        message = "name in URL does not match name in Eviction object"
        raise EvictionRefused(400, "BadRequest", message)
    if meta.get("namespace", namespace) != namespace:
        message = "the namespace of the provided object does not match the namespace sent"
        raise EvictionRefused(400, "BadRequest", message)


def several_budgets(pod: Object, budgets: list[Object]) -> bool:
    """Whether more than one budget is to be respected."""
    return not _ignores_budgets(pod) and len([one for one in budgets if _selects(one, pod)]) > 1


def failed_status() -> Object:
    """What the real server answers then, with no reason."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": _SEVERAL,
        "code": 500,
    }


def spend(pod: Object, budgets: list[Object]) -> Object | None:
    """The budget that lets the pod go, as it is afterwards; ``None`` where none is spent."""
    found = [one for one in budgets if _selects(one, pod)]
    if _ignores_budgets(pod) or not found:
        return None
    budget = copy.deepcopy(found[0])
    status: dict[str, Any] = budget.setdefault("status", {})
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _ready(pod) and healthy >= wanted > 0:
        return None
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        cause = f"The disruption budget {name} is still being processed by the server."
        raise EvictionRefused(429, "TooManyRequests", _VIOLATES, 10, cause)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise EvictionRefused(403, "Forbidden", "pdb disruptions allowed is negative")
    if allowed == 0:
        cause = (
            f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        )
        raise EvictionRefused(429, "TooManyRequests", _VIOLATES, 0, cause)
    status["disruptionsAllowed"] = allowed - 1
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = "2026-01-01T00:00:00Z"
    return budget


def check_uid(pod: Object, body: Object) -> None:
    """The pod that was meant is not there any more, and another has its name."""
    wanted = ((body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid")
    if wanted not in (None, pod["metadata"]["uid"]):
        message = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: "
        raise EvictionRefused(409, "Conflict", message + pod["metadata"]["uid"])


def ending(pod: Object, body: Object) -> Object | None:
    """The pod once it is being deleted; ``None``: it goes at once, nobody has to end it."""
    asked = (body.get("deleteOptions") or {}).get("gracePeriodSeconds")
    grace = pod.get("spec", {}).get("terminationGracePeriodSeconds", 30) if asked is None else asked
    if grace == 0 or not pod.get("spec", {}).get("nodeName"):
        return None
    new = copy.deepcopy(pod)
    new["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
    new["metadata"]["deletionGracePeriodSeconds"] = grace
    return new


def _ignores_budgets(pod: Object) -> bool:
    phase = pod.get("status", {}).get("phase", "Pending")
    return phase in _ENDED or "deletionTimestamp" in pod["metadata"]


def _ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _selects(budget: Object, pod: Object) -> bool:
    """In policy/v1 an empty selector is all pods of the namespace, none is no pod."""
    selector = budget.get("spec", {}).get("selector")
    if selector is None or budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    labels = pod["metadata"].get("labels", {})
    return selector.get("matchLabels", {}).items() <= labels.items()
