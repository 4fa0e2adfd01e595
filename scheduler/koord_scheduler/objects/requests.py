"""Requests of a pod, as Kubernetes' ``PodRequests`` computes them. No IO.

Quantities are added exactly, and rounded up once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from koord_kube.views.pod import Quantities
from koord_model.demand import Amounts, InitContainer, whole_pod
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU, HUGE_PAGES, LABEL_QOS, MEMORY
from koord_model.quantity import nano

from koord_scheduler.objects.pod import ContainerStatus, PodInfo, SchedulingContainer

_BILLION = 10**9
_OF_NO_REQUEST = {CPU: _BILLION // 10, MEMORY: 200 * 2**20 * _BILLION}
"""Requests in scores of a container without any: 100 millicores, 200 MiB."""
_BATCH = frozenset((BATCH_CPU, BATCH_MEMORY))
"""Instead of CPU and memory. What hooks make of them is in the container's cgroup, which a kubelet
of 1.33 or newer reports as the CPU that is requested.
"""
_NONE: Amounts = {}


class PodRequests(NamedTuple):
    """A pod's usage of a node: CPU in millicores, everything else whole (bytes, or pieces).

    ``scored_cpu`` and ``scored_memory`` count for scores; there containers that ask for
    nothing count as well, so that they are spread, too.
    """

    amounts: Amounts
    scored_cpu: int
    scored_memory: int


def pending_requests(pod: PodInfo) -> PodRequests:
    """Return the requests of a pod that waits.

    Raises:
        ValueError: a quantity is not one.
    """
    exact = _exact_requests(pod, by_status=False, defaults=_NONE)
    return _rounded(exact, _exact_requests(pod, by_status=False, defaults=_OF_NO_REQUEST))


def placed_requests(pod: PodInfo) -> PodRequests:
    """Return a placed pod's requests; while it is resized, the more of before and after.

    Raises:
        ValueError: a quantity is not one.
    """
    exact = _exact_requests(pod, by_status=True, defaults=_NONE)
    defaults: Amounts = _OF_NO_REQUEST
    if _of_whole_pod(pod):
        defaults = {name: one for name, one in _OF_NO_REQUEST.items() if name not in exact}
    scored = _exact_requests(pod, by_status=True, defaults=defaults) if defaults else exact
    return _rounded(exact, scored)


def pod_limits(pod: PodInfo) -> Amounts:
    """The limits of a pod as a whole, as Kubernetes' ``PodLimits`` computes them.

    Raises:
        ValueError: a quantity is not one.
    """

    def of(container: SchedulingContainer) -> Amounts:
        return _amounts(container.resources.limits if container.resources else None)

    inits = [InitContainer(of(one), one.is_sidecar) for one in pod.spec.init_containers or ()]
    whole = _supported_for_pods(_amounts(pod.spec.resources.limits if pod.spec.resources else None))
    limits = whole_pod(map(of, pod.spec.containers or ()), inits, whole)
    overhead = _amounts(pod.spec.overhead)
    return {
        name: _round(name, amount + (overhead.get(name, 0) if amount else 0))
        for name, amount in limits.items()
    }


def _rounded(exact: Amounts, scored: Amounts) -> PodRequests:
    amounts = {name: _round(name, amount) for name, amount in exact.items()}
    return PodRequests(
        amounts, _round(CPU, scored.get(CPU, 0)), _round(MEMORY, scored.get(MEMORY, 0))
    )


def _round(name: str, amount: int) -> int:
    return -(-amount // (10**6 if name == CPU else _BILLION))


def _exact_requests(pod: PodInfo, *, by_status: bool, defaults: Amounts) -> Amounts:
    """In billionths; containers that do not name a resource of ``defaults`` ask for that."""
    statuses = _statuses(pod) if by_status else {}
    infeasible = by_status and _is_resize_infeasible(pod)
    is_hooked = (pod.metadata.labels or {}).get(LABEL_QOS) == "BE"

    def of(container: SchedulingContainer, *, resizable: bool = True) -> Amounts:
        asked = _amounts(container.resources.requests if container.resources else None)
        status = statuses.get(container.name) if resizable else None
        if status is not None and status.resources is not None:
            actual = _amounts(status.resources.requests), _amounts(status.allocated_resources)
            if is_hooked and asked.keys() & _BATCH:
                actual = _only(asked, actual[0]), _only(asked, actual[1])
            asked = _most(actual if infeasible else (asked, *actual))
        return {**defaults, **asked} if defaults else asked

    inits = [
        InitContainer(of(one, resizable=one.is_sidecar), one.is_sidecar)
        for one in pod.spec.init_containers or ()
    ]
    containers = [of(one) for one in pod.spec.containers or ()]
    whole = _of_whole_pod(pod)
    status = pod.status
    if whole and by_status and status.resources is not None:
        actual = _amounts(status.resources.requests), _amounts(status.allocated_resources)
        most = _most(actual if infeasible else (_all_of_whole_pod(pod), *actual))
        whole = {name: most.get(name, 0) for name in whole}
    return whole_pod(containers, inits, whole, _amounts(pod.spec.overhead))


def _only(asked: Amounts, actual: Amounts) -> Amounts:
    return {name: amount for name, amount in actual.items() if name in asked}


def _all_of_whole_pod(pod: PodInfo) -> Amounts:
    return _amounts(pod.spec.resources.requests if pod.spec.resources else None)


def _of_whole_pod(pod: PodInfo) -> Amounts:
    """The requests of the pod as a whole, of the resources that can be asked for so."""
    return _supported_for_pods(_all_of_whole_pod(pod))


def _supported_for_pods(amounts: Amounts) -> Amounts:
    return {
        name: amount
        for name, amount in amounts.items()
        if name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)
    }


def _statuses(pod: PodInfo) -> Mapping[str, ContainerStatus]:
    both = pod.status.container_statuses or (), pod.status.init_container_statuses or ()
    return {status.name: status for statuses in both for status in statuses}


def _is_resize_infeasible(pod: PodInfo) -> bool:
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _most(lists: Iterable[Amounts]) -> Amounts:
    most: dict[str, int] = {}
    for one in lists:
        for name, amount in one.items():
            most[name] = max(amount, most.get(name, amount))
    return most


def _amounts(quantities: Quantities | None) -> Amounts:
    if not quantities:
        return _NONE
    return {name: _nano(given) for name, given in quantities.items() if given is not None}


# The same few texts over and over.
@lru_cache(maxsize=8192)
def _nano(quantity: str | int | float) -> int:
    return nano(quantity)
