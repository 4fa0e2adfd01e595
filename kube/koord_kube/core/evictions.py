"""Evictions of pods: their requests, and what the API server's answers mean. No IO.

What it answers (Kubernetes' ``pkg/registry/core/pod/storage/eviction.go``):

- 201: the pod ends, after its grace period.
- 429 with the cause DisruptionBudget: a budget forbids it now. Another pod is to go instead.
- 201 with a body that says 500: more than one budget selects the pod.
- 404: it is gone; 409: another pod of its name is there.
- 401: the token is not valid, even after it was read again; 403: the account lacks the right. The
  pod stays; it may be tried again after a minute.
- 429 without that cause, 5xx, or no answer: the server has problems, so the request is repeated.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, Object
from koord_kube.protocol.pod_requests import condition_patch
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS

_BUDGET = "DisruptionBudget"
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
_REFUSED_SECONDS = 60.0


class EvictionResult(StrEnum):
    """The result of an eviction."""

    EVICTED = "evicted"  # it ends, or has ended
    GONE = "gone"  # it was gone before
    REFUSED = "refused"  # it stays: a disruption budget, or no right to do this
    FAILED = "failed"  # it stays: an error
    UNKNOWN = "unknown"  # nobody answered in time


class EvictionOutcome(NamedTuple):
    """``reason`` is one line; ``again_after`` is when it may be tried again, in seconds.

    ``disrupted`` is whether the pod was hit though it stays: then it counts as an eviction.
    """

    end: EvictionResult
    reason: str = ""
    again_after: float = 0.0
    disrupted: bool = False

    @property
    def pod_stays(self) -> bool:
        """Return whether the pod was there and is to stay, as far as is known."""
        return self.end not in (EvictionResult.EVICTED, EvictionResult.GONE)

    @property
    def may_succeed(self) -> bool:
        """Return whether the same request may have another answer at once."""
        return self.end in (EvictionResult.FAILED, EvictionResult.UNKNOWN)


class EvictedPod(NamedTuple):
    """The pod to evict, and none that has its name after it."""

    namespace: str
    name: str
    uid: str


class DisruptionTarget(NamedTuple):
    """The condition that says why a pod ends; ``reason`` is one CamelCase word."""

    reason: str
    message: str


def eviction_request(pod: EvictedPod, grace_seconds: int | None = None) -> Request:
    """The request to the Eviction API, policy/v1."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": _options(pod, grace_seconds),
    }
    return Request("POST", PODS, pod.name, pod.namespace, "eviction", body)


def deletion_request(pod: EvictedPod, grace_seconds: int | None = None) -> Request:
    """The request to delete a pod, whatever budgets say."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions"} | _options(pod, grace_seconds)
    return Request("DELETE", PODS, pod.name, pod.namespace, body=body)


def condition_request(pod: EvictedPod, why: DisruptionTarget, at: float) -> Request:
    """The request that says why a pod ends, since ``at`` seconds after the epoch."""
    condition = {"type": "DisruptionTarget", "status": "True", **why._asdict()}
    return condition_patch(f"{pod.namespace}/{pod.name}", pod.uid, condition, at)


def outcome_of(error: ApiError) -> EvictionOutcome:
    """The meaning of a refusal."""
    text = str(error)
    if isinstance(error, NotFoundError):
        return EvictionOutcome(EvictionResult.GONE)
    if isinstance(error, ConflictError):
        return EvictionOutcome(EvictionResult.GONE, "another pod of its name is there")
    if error.status == 0:
        return EvictionOutcome(EvictionResult.UNKNOWN, text)
    if error.status == 429 and error.cause == _BUDGET:
        return EvictionOutcome(EvictionResult.REFUSED, text, error.retry_after)
    if _SEVERAL_BUDGETS not in text and (error.status == 429 or error.status >= 500):
        return EvictionOutcome(EvictionResult.FAILED, text, error.retry_after)
    # An invalid token, a lack of rights, a webhook that refuses, conflicting budgets: retry later.
    return EvictionOutcome(EvictionResult.REFUSED, text, _REFUSED_SECONDS)


def _options(pod: EvictedPod, grace_seconds: int | None) -> Object:
    options: Object = {"preconditions": {"uid": pod.uid}}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
