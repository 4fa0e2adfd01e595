"""The pods that may burst, with their quotas as the cgroups have them. No IO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from koord_host.knobs.forms import NO_LIMIT, Value
from koord_model.cpu_burst import BurstPolicy, CPUBurst, of_pod
from koord_model.keys import CPU

from koordlet.qos_manager.core.strategy import (
    ContainerView,
    Decision,
    PodView,
    StrategyView,
    WindowStats,
)
from koordlet.qos_manager.strategies.cpu_burst.burst_limiter import spread
from koordlet.qos_manager.strategies.cpu_burst.quota_burst import BurstQuota, Key, within
from koordlet.qos_manager.strategies.cpu_burst.share_pool import BESIDE

QUOTA, PERIOD, BURST = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"
BY_QUOTA = (BurstPolicy.AUTO, BurstPolicy.QUOTA_BURST)
"""The policies by which quotas grow."""

_DEFAULT_PERIOD = 100_000  # µs
_LEAST_QUOTA = 1000
"""The kernel's, in µs: the kubelet rounds smaller ones up to it."""

_LOOK_SECONDS = 10.0
"""Time for which quotas that only hooks and the kubelet change are taken as unchanged."""
_REST_SECONDS = 30.0
"""After a container was resized none of its pod bursts: the kernel may refuse the kubelet a pod's
quota that is below one of a container."""


class BurstPod(NamedTuple):
    """A pod: what it asks for, its own quota (-1: none) and period, those of its containers.

    ``due`` is when its files are looked at again (CLOCK_MONOTONIC, seconds), ``notes`` are
    about its annotation. Quotas and periods are microseconds.
    """

    of: PodView
    asked: CPUBurst
    due: float
    base: int = NO_LIMIT
    period: int = _DEFAULT_PERIOD
    quotas: tuple[BurstQuota, ...] = ()
    notes: tuple[Decision, ...] = ()

    def is_due(self, view: StrategyView, throttled: Mapping[tuple[str, ...], WindowStats]) -> bool:
        """True if its files are to be looked at again.

        Those whose quotas are raised, or may be now, are as soon as the kubelet has resized them.
        """
        if self.due <= view.steady:
            return True
        busy = [quota for quota in self.quotas if quota.raised or _is_throttled(quota, throttled)]
        return bool(busy) and (
            _base_found(view, self.of.group) != self.base
            or any(_base_found(view, quota.of.group) != quota.found for quota in busy)
        )


def _is_throttled(
    burst_quota: BurstQuota, throttled: Mapping[tuple[str, ...], WindowStats]
) -> bool:
    return burst_quota.key in throttled and throttled[burst_quota.key].last > 0


def may_burst(pod: PodView) -> bool:
    """True if it is a pod for bursts at all, whatever it asks for."""
    demand = pod.demand
    ended = demand is not None and demand.phase in ("Succeeded", "Failed")
    return pod.asked_qos not in BESIDE and not ended and not pod.in_vm


def looked_at(view: StrategyView, pod: PodView, node: CPUBurst, known: BurstPod | None) -> BurstPod:
    """A pod as it is now; raised quotas stay raised, as far as they may.

    What a restart left raised is taken up from the cgroups.
    """
    asked, ignored = of_pod(pod.record.pod, node)
    notes = tuple(
        Decision(line, pod=pod.name, aspect=f"annotation {place}")
        for place, line in enumerate(ignored)
    )
    if asked.policy is BurstPolicy.NONE:
        return BurstPod(pod, asked, float("inf"), notes=notes)
    before = {quota.key: quota for quota in known.quotas} if known else {}
    base, period = _bandwidth(view, pod.group)
    found = (_quota(view, pod, container, asked, before) for container in pod.containers)
    quotas = tuple(quota for quota in found if quota is not None)
    if any(_is_resized(quota, before.get(quota.key)) for quota in quotas):
        until = view.steady + _REST_SECONDS
        quotas = tuple(quota._replace(quota=quota.base, rest_until=until) for quota in quotas)
    # Not all pods in the same round.
    due = view.steady + _LOOK_SECONDS * (1 + spread(pod.uid)) / 2
    return BurstPod(pod, asked, due, base, period, quotas, notes)


def _bandwidth(view: StrategyView, group: str) -> tuple[int, int]:
    """A group's quota without burst, -1 where there is none or no group, and its period."""
    period = _number(view.cgroups.now(group, PERIOD), _DEFAULT_PERIOD)
    return _base_found(view, group), max(period, 1)


def _base_found(view: StrategyView, group: str) -> int:
    base = _number(view.cgroups.base(group, QUOTA), NO_LIMIT)
    return base if base > 0 else NO_LIMIT


def _is_resized(now: BurstQuota, before: BurstQuota | None) -> bool:
    if before is None:
        return False
    return now.found != before.found or 0 != before.limit != now.limit != 0


def _base(found: int, limit: int, period: int, ratio: float, known: BurstQuota | None) -> int:
    """The quota without burst: what was found, unless that cannot be.

    What it was changed to since the last look is the kubelet's word, whatever the limit was
    said to be.
    """
    if known is None or known.limit != limit or known.period != period:
        plausible = _plausible(found, limit, period, ratio)
        return plausible if known is None or known.found == found else found
    return known.base if known.found == found else found


def _plausible(base: int, limit: int, period: int, ratio: float) -> int:
    """The base, or what the limit (millicores) can mean at most if that is less, in µs.

    A quota that an earlier, forgotten run raised is not a base. ``ratio`` is
    cpunormalization's: a slower CPU's quota is larger.
    """
    if not limit:
        return base
    return min(base, max(math.ceil(limit * period / (1000 * min(ratio, 1.0))), _LEAST_QUOTA))


def _number(value: Value | None, default: int) -> int:
    return value if isinstance(value, int) else default


def _quota(
    view: StrategyView,
    pod: PodView,
    container_view: ContainerView,
    asked: CPUBurst,
    before: Mapping[Key, BurstQuota],
) -> BurstQuota | None:
    """A container's quota; ``None`` where it has none."""
    limits = pod.demand.container_limits if pod.demand else {}
    limit = limits.get(container_view.container.name, {}).get(CPU, 0)
    found, period = _bandwidth(view, container_view.group)
    if found == NO_LIMIT:
        return None
    key = pod.uid, container_view.container.id
    known = before.get(key)
    base = _base(found, limit, period, view.node.cpu_normalization_ratio, known)
    made = BurstQuota(
        container_view, key, asked, limit, base, period, base, view.steady, found=found
    )
    if asked.policy not in BY_QUOTA:
        return made
    if known is None:
        now = _number(view.cgroups.now(container_view.group, QUOTA), base)
        return made._replace(quota=within(now, base, made.most))
    return known._replace(
        of=container_view,
        asked=asked,
        limit=limit or known.limit,
        base=base,
        found=found,
        period=period,
        quota=within(known.quota, base, made.most),
    )
