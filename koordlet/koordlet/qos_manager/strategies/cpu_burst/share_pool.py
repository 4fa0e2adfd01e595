"""Load of the CPUs that pods share, and the order in which raised quotas come down. No IO.

The pool is what LS pods, pods without a class and the system share: Koordinator's
``cpuburst`` computes it as (node use - use of LSE, LSR and BE pods) / (CPUs - requests of
LSE and LSR pods), and so does this. Its states are Koordinator's too:

    idle        below 0.9 · threshold: quotas may grow
    cooling     from there up to the threshold: none grows
    overloaded  at the threshold and above: quotas come down
    unknown     not measured: none grows, none comes down

How they come down is our own. Koordinator lowers all of them in the same second, so that
every pod is throttled at once because one of them was greedy. Here

1. only as much comes down as is too much: the ``excess`` over the middle of the cooling
   band (so that the next point does not fall just on the threshold again);
2. the container that uses most above its own limit goes first, one step of 0.8 a round, until
   the steps release the excess: the largest bursts are cut, and small ones stay;
3. no more than a quarter of the raised quotas (and at least one) move in one round;
4. what was released lately counts as released, though the averaged use does not show it
   yet, else too much would come down.

It uses neither chance nor a clock: the same numbers give the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from koord_model.keys import CPU
from koord_model.qos import QoSClass

from koordlet.qos_manager.core.strategy import Decision, StrategyView, Term

COOLING = 0.9
"""Part of the threshold from which on quotas stop growing; Koordinator's."""
WINDOW = 5.0
"""Seconds over which use is averaged: Koordinator's five rounds."""
BESIDE = (QoSClass.LSE, QoSClass.LSR, QoSClass.BE)
"""Classes outside the pool; Koordinator goes by the label alone here."""
_EXCLUSIVE = (QoSClass.LSE, QoSClass.LSR)
_TARGET = (1 + COOLING) / 2
_MOST_AT_ONCE = 0.25


class SharePoolState(StrEnum):
    """State of the pool."""

    IDLE = "idle"
    COOLING = "cooling"
    OVERLOADED = "overloaded"
    UNKNOWN = "unknown"


class SharePool(NamedTuple):
    """Cores in the pool and of it in use (``None``: not known); the threshold is a part of 1."""

    used: float | None
    total: float
    threshold: float

    @property
    def ratio(self) -> float | None:
        """Load of the pool; 1 where no core is left in it."""
        if self.used is None:
            return None
        return self.used / self.total if self.total > 0 else 1.0

    @property
    def state(self) -> SharePoolState:
        """State that its load means."""
        ratio = self.ratio
        if ratio is None:
            return SharePoolState.UNKNOWN
        if ratio >= self.threshold:
            return SharePoolState.OVERLOADED
        return SharePoolState.COOLING if ratio >= COOLING * self.threshold else SharePoolState.IDLE

    @property
    def excess(self) -> float:
        """Cores in use beyond the middle of the cooling band; 0 where it is not overloaded."""
        if self.used is None or self.state is not SharePoolState.OVERLOADED:
            return 0.0
        return max(self.used - _TARGET * self.threshold * max(self.total, 0.0), 0.0)


class RaisedQuota(NamedTuple):
    """A raised quota: what one step down takes from its user, and how far it is up; cores."""

    key: tuple[str, str]
    releases: float
    above: float


class ReleasedCores(NamedTuple):
    """Cores that were taken back at a time (CLOCK_MONOTONIC, seconds)."""

    at: float
    cores: float


def to_lower(excess: float, raised: Sequence[RaisedQuota]) -> tuple[RaisedQuota, ...]:
    """Those that come down by a step now, the greediest first; none where nothing is too much."""
    if excess <= 0 or not raised:
        return ()
    first = sorted(raised, key=lambda quota: (-quota.releases, -quota.above, quota.key))
    chosen: list[RaisedQuota] = []
    for quota in first[: math.ceil(len(raised) * _MOST_AT_ONCE)]:
        if excess <= 0:
            break
        chosen.append(quota)
        excess -= quota.releases
    return tuple(chosen)


def unseen(released: Iterable[ReleasedCores], steady: float, window: float) -> float:
    """Cores taken back that an average over ``window`` seconds does not show yet."""
    return sum(cores.cores * (1 - (steady - cores.at) / window) for cores in released)


def recent(
    released: Iterable[ReleasedCores], steady: float, window: float
) -> tuple[ReleasedCores, ...]:
    """Return the cores taken back within the window."""
    return tuple(cores for cores in released if 0 <= steady - cores.at < window)


def shared_cpus(view: StrategyView, threshold_percent: int) -> tuple[SharePool, Decision]:
    """The pool as it is measured, and what is decided of it."""
    node = _average(view, "node_cpu_usage")
    requested = beside = 0.0
    for pod in view.pods:
        if pod.asked_qos in BESIDE:
            # A pod that is not measured yet counts as one of the pool: rather too full.
            beside += _average(view, "pod_cpu_usage", pod.uid) or 0.0
            if pod.asked_qos in _EXCLUSIVE:
                requested += pod.requests.get(CPU, 0) / 1000
    cpus = len(view.cpus)
    used = None
    if node is not None and cpus and view.pods_known:
        used = max(node - beside, 0.0)
    pool = SharePool(used, cpus - requested, threshold_percent / 100)
    ratio = pool.ratio
    given = (
        Term("node", node, "cores"),
        Term("LSE, LSR, BE pods", beside, "cores"),
        Term("CPUs", cpus or None, "cores"),
        Term("LSE, LSR requests", requested, "cores"),
        Term("share", None if ratio is None else ratio * 100, "%"),
        Term("threshold", threshold_percent, "%"),
    )
    return pool, Decision(_OUTCOMES[pool.state], _FORMULA, given, aspect="share pool")


_FORMULA = "share = 100 × max(node − LSE, LSR, BE pods, 0) / (CPUs − LSE, LSR requests)"
_OUTCOMES = {
    SharePoolState.IDLE: "shared CPUs have room: quotas of throttled containers may grow",
    SharePoolState.COOLING: "shared CPUs are nearly full: no quota grows",
    SharePoolState.OVERLOADED: (
        "shared CPUs are overloaded: raised quotas come down, greediest first"
    ),
    SharePoolState.UNKNOWN: "use of the shared CPUs is not known: no quota grows",
}


def _average(view: StrategyView, kind: str, *labels: str) -> float | None:
    found = view.history.windows(kind, WINDOW).get(labels)
    return found.avg if found is not None else view.latest.value(kind, *labels)
