"""Evicts through the API server, which respects PodDisruptionBudgets.

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

from koord_kube.protocol.api import Api, ApiError, ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import PODS
from koord_kube.shared_backoff import RequestBackoff, SharedBackoff, backoff_of
from koord_model.pod import Pod

from koordlet.qos_manager.eviction.policy.backend import EvictionOutcome, EvictionResult
from koordlet.states_informer.state.pod_inventory import PodRecord

FORCED_GRACE = 1
"""Seconds. 0 would have the server forget a pod whose containers still run."""

_TRIES = 4
_FIRST, _LONGEST = 1.0, 8.0
_BUDGET = "DisruptionBudget"
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
_REFUSED_SECONDS = 60.0


class EvictionApiBackend:
    """The Eviction API, policy/v1."""

    name = "the Eviction API"
    pod_stays = False

    def __init__(self, api: Api, backoff: SharedBackoff | None = None) -> None:
        self._api = api
        self._shared = backoff or backoff_of(api)

    async def evict(
        self, record: PodRecord, grace_seconds: float, *, forced: bool
    ) -> EvictionOutcome:
        """Request the eviction; retry a few times if the server fails."""
        pod = record.pod
        backoff = RequestBackoff(self._shared, _FIRST, _LONGEST, longest=_LONGEST)
        asked_for = eviction(pod, FORCED_GRACE if forced else None)
        for left in reversed(range(_TRIES)):
            try:
                await self._api.create(PODS, asked_for, pod.namespace, pod.name, "eviction")
            except ApiError as error:
                outcome = outcome_of(error)
                if outcome.end not in (EvictionResult.FAILED, EvictionResult.UNKNOWN) or not left:
                    return outcome
                await backoff.pause(error)
            else:
                return EvictionOutcome(EvictionResult.EVICTED)
        raise AssertionError  # pragma: no cover - the last try returns

    async def close(self) -> None:
        """The API is another's."""


def eviction(pod: Pod, grace_seconds: int | None = None) -> Object:
    """The request, for this very pod and none that has its name after it."""
    options: Object = {"preconditions": {"uid": pod.uid}}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }


def outcome_of(error: ApiError) -> EvictionOutcome:
    """What a refusal means."""
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
