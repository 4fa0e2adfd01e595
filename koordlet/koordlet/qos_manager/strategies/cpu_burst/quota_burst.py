"""Growth and return of CPU quotas, and the CPU time that may be saved up. No IO.

Koordinator's steps: × 1.2 up for a container that is throttled while the shared CPUs have
room, × 0.8 down while its tokens are used up (``burst_limiter``) or the shared CPUs are
overloaded (``share_pool`` says whose come down), from the quota without burst (``base``) up
to that times a percentage. Ours: each point of throttling raises a quota once, and a
quota that was not needed for long comes down too. Quotas and periods are microseconds,
times CLOCK_MONOTONIC in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from koord_model.cpu_burst import CPUBurst

from koordlet.qos_manager.core.strategy import ContainerView, WindowStats
from koordlet.qos_manager.strategies.cpu_burst.burst_limiter import SAVING, BurstTokens, spend
from koordlet.qos_manager.strategies.cpu_burst.share_pool import (
    WINDOW,
    RaisedQuota,
    ReleasedCores,
    SharePool,
    SharePoolState,
    recent,
    to_lower,
    unseen,
)

UP, DOWN = 1.2, 0.8
_MOST_BURST = 10**8  # the kernels that have the knob on cgroup v1 take no more

Key = tuple[str, str]
"""Pod UID and container id: the labels of a container's series."""


class QuotaMove(StrEnum):
    """The change of a quota in one round."""

    HOLD = "hold"
    UP = "up"
    DOWN = "down"


class QuotaCause(StrEnum):
    """Reason of a quota."""

    FOUND = "as it was found"
    THROTTLED = "× 1.2 while it is throttled"
    TOKENS = "× 0.8 while its tokens are used up"
    POOL = "× 0.8 while the shared CPUs are overloaded"
    CALM = "× 0.8 as it was not needed for long"


class BurstQuota(NamedTuple):
    """A container's quota, ``base`` without burst; ``most`` is as far as it may grow.

    ``found`` is the base as the cgroups have it, or would without strategies.

    ``asked`` is what the pod asks for. ``limit`` is the specification's in millicores, 0 where
    it is not known. ``used_at`` is the wall-clock time of the point of throttling that
    raised it last, ``busy_at`` when it was last needed; before ``rest_until`` it does not grow.
    """

    of: ContainerView
    key: Key
    asked: CPUBurst
    limit: int
    base: int
    period: int
    quota: int
    busy_at: float
    cause: QuotaCause = QuotaCause.FOUND
    rest_until: float = float("-inf")
    used_at: float = 0.0
    found: int = 0
    tokens: BurstTokens | None = None

    @property
    def raised(self) -> bool:
        """True if it is above its base."""
        return self.quota > self.base

    @property
    def most(self) -> int:
        """As far as it may grow."""
        return ceiling(self.base, self.asked.quota_percent)

    @property
    def saved(self) -> int:
        """``cpu.cfs_burst_us``: what of the quota may be saved up.

        Of the quota without burst: the kernel takes no quota below a burst that is set, and
        would refuse the kubelet that writes a pod's limits again, or a lower one that is
        yet to come into force.
        """
        quota = self.base
        if self.limit:
            quota = min(quota, self.limit * self.period // 1000)
        millicores = self.limit or self.base * 1000 // self.period
        wanted = millicores * self.asked.burst_percent * self.period // (1000 * 100)
        return burst_within(wanted, quota)

    def moved(self, move: QuotaMove, cause: QuotaCause) -> BurstQuota:
        """After a step."""
        factor = {QuotaMove.UP: UP, QuotaMove.DOWN: DOWN}.get(move, 1.0)
        quota = within(int(self.quota * factor), self.base, self.most)
        return self if quota == self.quota else self._replace(quota=quota, cause=cause)


def ceiling(base: int, percent: int) -> int:
    """The largest quota; never below ``base``."""
    return max(base * percent // 100, base)


def within(quota: int, base: int, most: int) -> int:
    """The quota where it may be."""
    return max(base, min(quota, most))


def burst_within(wanted: int, quota: int) -> int:
    """A burst that the kernel takes.

    Mainline refuses one above the quota (EINVAL), and a quota below a burst that is set.
    """
    return max(min(wanted, quota, _MOST_BURST), 0)


class BurstInputs(NamedTuple):
    """Inputs of steps; use and throttling by container, ``use`` {} where none needs it."""

    steady: float
    pool: SharePool
    state: SharePoolState
    calm_seconds: float
    use: Mapping[tuple[str, ...], WindowStats]
    throttled: Mapping[tuple[str, ...], WindowStats]


def stepped(
    quotas: Sequence[BurstQuota], now: BurstInputs, released: tuple[ReleasedCores, ...]
) -> tuple[list[BurstQuota], tuple[ReleasedCores, ...]]:
    """All quotas after one round, and what was taken back within the pool's window.

    What nothing happens to is the same object.
    """
    steps = [_alone(quota, now) for quota in quotas]
    released = recent(released, now.steady, WINDOW)
    down = sum(_raised(quota, now).releases for quota, move in steps if move is QuotaMove.DOWN)
    excess = now.pool.excess - unseen(released, now.steady, WINDOW) - down
    held = (
        [quota for quota, move in steps if move is QuotaMove.HOLD and quota.raised]
        if excess > 0
        else []
    )
    lowered = {
        quota.key: quota.releases for quota in to_lower(excess, [_raised(q, now) for q in held])
    }
    down += sum(lowered.values())
    if down:
        released = (*released, ReleasedCores(now.steady, down))
    after = [
        quota.moved(QuotaMove.DOWN, QuotaCause.POOL)
        if quota.key in lowered
        else quota
        if move is QuotaMove.HOLD
        else quota.moved(move, _CAUSES[move, quota.tokens is None or quota.tokens.allow])
        for quota, move in steps
    ]
    return after, released


_CAUSES = {
    (QuotaMove.UP, True): QuotaCause.THROTTLED,
    (QuotaMove.DOWN, True): QuotaCause.CALM,
    (QuotaMove.DOWN, False): QuotaCause.TOKENS,
}
"""By the move, and whether there are tokens."""


def _alone(burst_quota: BurstQuota, now: BurstInputs) -> tuple[BurstQuota, QuotaMove]:
    """Return a quota's move, but for the pool's overload; with its tokens and times."""
    point = now.throttled.get(burst_quota.key)
    throttled = point is not None and point.last > 0
    limited = burst_quota.asked.quota_period_seconds >= 0
    if not (throttled or limited or burst_quota.raised or burst_quota.tokens):
        return burst_quota, QuotaMove.HOLD
    use = _use_percent(burst_quota, now)
    if limited or burst_quota.tokens:
        burst_quota = burst_quota._replace(
            tokens=_tokens(burst_quota, use, now) if limited else None
        )
    if burst_quota.tokens is not None and not burst_quota.tokens.allow:
        return burst_quota, QuotaMove.DOWN
    if throttled or use is None or use >= SAVING:
        burst_quota = burst_quota._replace(busy_at=now.steady)
    if point is not None and throttled and _may_grow(burst_quota, point, now):
        return burst_quota._replace(used_at=point.last_at), QuotaMove.UP
    calm = 0 < now.calm_seconds <= now.steady - burst_quota.busy_at
    return burst_quota, QuotaMove.DOWN if burst_quota.raised and calm else QuotaMove.HOLD


def _may_grow(burst_quota: BurstQuota, point: WindowStats, now: BurstInputs) -> bool:
    fresh = point.last_at != burst_quota.used_at
    return fresh and now.state is SharePoolState.IDLE and now.steady >= burst_quota.rest_until


def _use_percent(burst_quota: BurstQuota, now: BurstInputs) -> float | None:
    """Use in percent of the quota without burst."""
    found = now.use.get(burst_quota.key)
    return None if found is None else found.last * 100 * burst_quota.period / burst_quota.base


def _tokens(burst_quota: BurstQuota, use: float | None, now: BurstInputs) -> BurstTokens:
    period, percent = burst_quota.asked.quota_period_seconds, burst_quota.asked.quota_percent
    return spend(burst_quota.tokens, burst_quota.key[1], period, percent, use, now.steady)


def _raised(burst_quota: BurstQuota, now: BurstInputs) -> RaisedQuota:
    """Return the release of a step down; where its use is not known, as if it used all."""
    found = now.use.get(burst_quota.key)
    shall = burst_quota.moved(QuotaMove.DOWN, burst_quota.cause).quota
    used = (
        burst_quota.quota
        if found is None
        else min(found.avg * burst_quota.period, burst_quota.quota)
    )
    releases = max(used - shall, 0) / burst_quota.period
    return RaisedQuota(
        burst_quota.key, releases, (burst_quota.quota - burst_quota.base) / burst_quota.period
    )
