"""Pace of evictions of one workload or namespace: Koordinator's object limiters. No IO."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from koord_kube.core.token_bucket import TokenBucket

from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.plugins.migration_controller.args import (
    MigrationControllerArgs,
    ObjectLimiter,
)
from koord_descheduler.plugins.migration_controller.limits import limit_of

_MOST = 1 << 14
"""Workloads and namespaces that are remembered: some 300 bytes each."""


class ObjectLimiters:
    """A token bucket of each controller and namespace; ``now`` is in seconds of one clock."""

    def __init__(self, args: MigrationControllerArgs) -> None:
        self._args = args
        self._limiters = {
            name: limiter for name, limiter in args.object_limiters.items() if limiter.seconds > 0
        }
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()

    @property
    def longest(self) -> float:
        """Seconds after which no eviction counts any more."""
        return max((limiter.seconds for limiter in self._limiters.values()), default=0.0)

    def clear(self) -> None:
        """Forget all evictions."""
        self._buckets.clear()

    def wait(self, pod: ObservedPod, now: float, others: Sequence[ObservedPod] = ()) -> float:
        """Seconds until a pod may be evicted, and with it all ``others``; 0: they may now.

        Infinite if so many never may at once.
        """
        longest = 0.0
        for name, limiter in self._limiters.items():
            key = _key(name, pod)
            number = 1 + sum(_key(name, other) == key for other in others)
            bucket = self._buckets.get((name, key))
            if bucket is not None:
                longest = max(longest, bucket.wait(now, number))
            elif number > (limiter.burst or 1) and key and self._rate(name, limiter, None):
                return math.inf
        return longest

    def obstacle(self, pod: ObservedPod, now: float, others: Sequence[ObservedPod] = ()) -> str:
        """Return why a pod may not be evicted now with ``others``, in a line; "" if it may."""
        wait = self.wait(pod, now, others)
        if wait == math.inf:
            return "objectLimiters never allow so many at once (burst)"
        return f"objectLimiters allow the next one in {wait:.0f} s" if wait else ""

    def spend(self, owner: str, namespace: str, replicas: int | None, now: float) -> None:
        """A pod of a controller with so many ``replicas`` is evicted; ``None``: nobody knows."""
        for name, limiter in self._limiters.items():
            key = namespace if name == "namespace" else owner
            rate = self._rate(name, limiter, replicas)
            if not key or not rate:
                continue
            bucket = self._buckets.setdefault((name, key), TokenBucket(rate, limiter.burst or 1))
            self._buckets.move_to_end((name, key))
            bucket.qps = rate
            bucket.take(now)
        while len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)

    def _rate(self, name: str, limiter: ObjectLimiter, replicas: int | None) -> float:
        most = limiter.max_migrating
        if name == "namespace":
            return (most if isinstance(most, int) else 0) / limiter.seconds
        given = self._args.max_migrating_per_workload if most is None else most
        number = 1 if replicas is None else limit_of(replicas, given)
        return number / limiter.seconds


def _key(name: str, pod: ObservedPod) -> str:
    return pod.namespace if name == "namespace" else pod.owner
