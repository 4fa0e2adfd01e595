"""Resources that a container should have by a recommendation. No IO.

As VPA does: limits keep their proportion to requests, and bounds are those of requests. Unlike
VPA a request that is not there is not added: that could change the pod's QoS class, which
``/resize`` refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from koord_model.demand import Amounts

from koord_manager.resize.core.policy import ContainerResizePolicy

THRESHOLD_PERCENT = 10
"""Least change of a request that is worth a resize."""
_NONE: Amounts = {}


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
    """The container's resources at recommended requests of ``target``; equal if all stay.

    ``floors`` are requests below which it did harm; the policy's maximum counts more.
    Where limits stay, a request goes up to its limit at most, and one that equals its limit
    stays: otherwise a Guaranteed pod would not be one any more.
    """
    requests, limits = dict(current.requests), dict(current.limits)
    for name in policy.resources & target.keys():
        request, limit = current.requests.get(name, 0), current.limits.get(name)
        value = _bounded(name, max(target[name], floors.get(name, 0)), policy)
        if limit is not None and not policy.limits:
            value = request if request == limit else min(value, limit)
        if request <= 0 or not _worthwhile(request, value):
            continue
        requests[name] = value
        if limit is not None and policy.limits:
            limits[name] = -(-limit * value // request)
    return ResizableResources(requests, limits)


def _bounded(name: str, value: int, policy: ContainerResizePolicy) -> int:
    low, high = policy.minimum.get(name, 1), policy.maximum.get(name)
    return max(low, value if high is None else min(value, high))


def _worthwhile(request: int, value: int) -> bool:
    return abs(value - request) * 100 >= THRESHOLD_PERCENT * request and value != request
