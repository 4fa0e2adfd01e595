"""Resources that a container should have by a recommendation. No IO.

Bounds are those of requests, as VPA's are. Unlike VPA a request that is not there is not added:
that could change the pod's QoS class, which ``/resize`` refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from koord_model.demand import Amounts
from koord_model.keys import CPU, MEMORY

from koord_manager.resize.core.policy import ContainerResizePolicy

THRESHOLD_PERCENT = 10
"""Least change of a request that is worth a resize."""
LIMITS = "limits."
"""Prefix of limits beside requests in recommendations."""
_NONE: Amounts = {}
_STEPS = {CPU: 1, MEMORY: 1 << 20}


@dataclass(frozen=True, slots=True)
class ResizableResources:
    """Requests and limits of a container, as the API server has them (with its defaults)."""

    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)


def desired(
    current: ResizableResources,
    target: Amounts,
    policy: ContainerResizePolicy,
    floors: Amounts = _NONE,
) -> ResizableResources:
    """The container's resources at recommendations of ``target``; equal if all stay.

    Limits are as recommended, or keep their proportion to requests where none is; what equals its
    limit goes on to, and what does not, does not: otherwise the pod's QoS class could change.
    ``floors`` are requests and limits below which it did harm; the policy's maximum of requests
    counts more.
    """
    requests, limits = dict(current.requests), dict(current.limits)
    for name in policy.resources & target.keys():
        request, limit = current.requests.get(name, 0), current.limits.get(name)
        if request <= 0:
            continue
        value, after = _changed(name, request, limit, target, policy, floors)
        if _worthwhile(request, value) or _worthwhile(limit or 0, after or 0):
            requests[name] = value
            if after is not None:
                limits[name] = after
    return ResizableResources(requests, limits)


def _changed(
    name: str,
    request: int,
    limit: int | None,
    target: Amounts,
    policy: ContainerResizePolicy,
    floors: Amounts,
) -> tuple[int, int | None]:
    """Request and limit of a resource."""
    least = max(target[name], floors.get(name, 0))
    value = _bounded(name, least, policy)
    if limit is None:
        return value, None
    if not policy.limits:
        return (request if request == limit else min(value, limit)), limit
    floor = floors.get(LIMITS + name, 0)
    if request == limit:
        value = _bounded(name, max(least, target.get(LIMITS + name, 0), floor), policy)
        return value, value
    most = target.get(LIMITS + name, -(-limit * value // request))
    return value, max(most, floor, value + _STEPS[name])


def _bounded(name: str, value: int, policy: ContainerResizePolicy) -> int:
    low, high = policy.minimum.get(name, 1), policy.maximum.get(name)
    return max(low, value if high is None else min(value, high))


def _worthwhile(request: int, value: int) -> bool:
    return abs(value - request) * 100 >= THRESHOLD_PERCENT * request and value != request
