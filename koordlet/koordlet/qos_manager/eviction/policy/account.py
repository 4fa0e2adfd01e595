"""Accounts for recent evictions: rate, resource, and pods that are terminating. No IO.

All times are seconds of a steady clock. A refused eviction does not count: neither in the
minute nor as the start of a cool time. One whose result is unknown counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from koord_service.backoff import exponential

from koordlet.qos_manager.core.strategy import PodView, StrategyView

MINUTE = 60.0
_GRACE = 30.0
"""Kubernetes' default for ``terminationGracePeriodSeconds``."""
_MARGIN = 30.0
"""Time beyond its grace period that a pod may take to go."""
_ASKING = 90.0
"""The longest duration of an eviction request, retries included."""
_BAR, _LONGEST_BAR = 10.0, 300.0
_LONGEST_GRACE = 300.0
"""The longest wait for a pod's grace period, which users set and which may be years."""
_ATTEMPTS = 3
"""Number of attempts to evict a pod that does not go."""
_WARNING_LASTS = 60.0

Reason = tuple[str, str, str]
"""The claimant: strategy, rule, resource."""


@dataclass(frozen=True, slots=True)
class EvictionLimits:
    """Evictions a minute, and the seconds without another after one.

    ``cpu_cool`` is for all kinds of CPU (batch-cpu too), ``cool`` for all else. ``settles`` is
    for how many seconds what a pod freed still counts once it is gone: so long what the
    node uses may have been measured before.
    """

    per_minute: int = 10
    cpu_cool: float = 20.0
    cool: float = 4.0
    settles: float = 3.0

    def cool_time(self, family: str) -> float:
        """The seconds after an eviction for a kind of resource without another."""
        return self.cpu_cool if family == "cpu" else self.cool


@dataclass(frozen=True, slots=True)
class EvictionAllowance:
    """Permitted evictions now.

    ``left`` of ``per_minute`` evictions are left; ``cooling`` says for how many seconds there
    are none yet for a resource; ``going`` are the pods on their way out, with what each frees
    by claimant; ``barred`` those that are not to be tried now, and why; ``warned`` how many
    seconds ago pods were warned; ``in_vain`` for how many seconds claims are not served.
    """

    left: int
    per_minute: int
    cooling: Callable[[str], float] = lambda _: 0.0
    going: Mapping[str, Mapping[Reason, float]] = field(default_factory=dict)
    barred: Mapping[str, str] = field(default_factory=dict)
    warned: Mapping[str, float] = field(default_factory=dict)
    in_vain: Mapping[Reason, float] = field(default_factory=dict)


class OverduePod(NamedTuple):
    """A pod that has not gone, ``seconds`` after it was evicted for a strategy."""

    pod: PodView
    strategy: str
    seconds: float
    attempts: int


@dataclass(slots=True)
class _TerminatingPod:
    """``until`` is when its patience ends; ``ours`` whether we evicted it.

    ``stays`` is whether the pod itself stays, and only its containers end.
    """

    since: float
    until: float
    patience: float
    frees: Mapping[Reason, float] = field(default_factory=dict)
    ours: bool = True
    stays: bool = False


@dataclass(slots=True)
class _RetryDelay:
    until: float
    reason: str
    times: int


class _DeletedPod(NamedTuple):
    """A pod that has gone; until then what it frees counts."""

    until: float
    frees: Mapping[Reason, float]


class _PastEviction(NamedTuple):
    uid: str
    family: str
    at: float


@dataclass(slots=True)
class _WarningTimes:
    first: float
    last: float


class EvictionAccount:
    """The account of evictions; ``pretended`` if they are only shown.

    What was pretended is forgotten once the pod would be gone.
    """

    def __init__(self, limits: EvictionLimits, started: float, *, pretended: bool = False) -> None:
        self.limits = limits
        self._started = started
        self._pretended = pretended
        self._evicted: list[_PastEviction] = []
        self._going: dict[str, _TerminatingPod] = {}
        self._gone: dict[str, _DeletedPod] = {}
        self._barred: dict[str, _RetryDelay] = {}
        self._attempts: dict[str, int] = {}
        self._warned: dict[str, _WarningTimes] = {}
        self._stuck: set[str] = set()

    def observe(self, view: StrategyView) -> tuple[OverduePod, ...]:
        """Update from the pods that run: those gone, terminating and overdue."""
        now = view.steady
        here = {pod.uid: pod for pod in view.pods}
        if view.pods_known:
            self._forget({uid for uid, pod in here.items() if not self._ended(pod)}, now)
        self._gone = {uid: entry for uid, entry in self._gone.items() if now < entry.until}
        for uid, pod in here.items():
            ending = pod.demand is not None and pod.demand.terminating
            if ending and uid not in self._going and uid not in self._stuck:
                patience = min(grace_seconds(pod), _LONGEST_GRACE) + _MARGIN
                self._going[uid] = _TerminatingPod(now, now + patience, patience, ours=False)
        late = [uid for uid, entry in self._going.items() if now >= entry.until]
        self._warned = {
            uid: entry for uid, entry in self._warned.items() if now - entry.last < _WARNING_LASTS
        }
        horizon = max(MINUTE, self.limits.cpu_cool, self.limits.cool)
        self._evicted = [entry for entry in self._evicted if now - entry.at < horizon]
        found = [self._late(uid, now, here.get(uid)) for uid in late]
        return tuple(entry for entry in found if entry is not None)

    def room(self, now: float) -> EvictionAllowance:
        """Return the permitted evictions."""
        lately = sum(now - entry.at < MINUTE for entry in self._evicted)
        return EvictionAllowance(
            left=max(0, self.limits.per_minute - lately),
            per_minute=self.limits.per_minute,
            cooling=lambda resource: self.cooling(resource, now),
            going=self.expected,
            barred={uid: entry.reason for uid, entry in self._barred.items() if now < entry.until},
            warned={uid: now - entry.first for uid, entry in self._warned.items()},
        )

    def cooling(self, resource: str, now: float) -> float:
        """Seconds until the next eviction for a resource is allowed; 0 if it is allowed now."""
        kind = family(resource)
        times = (entry.at for entry in self._evicted if entry.family == kind)
        return max(0.0, max(times, default=self._started) + self.limits.cool_time(kind) - now)

    @property
    def expected(self) -> Mapping[str, Mapping[Reason, float]]:
        """Pods on their way out or just gone, and what each frees by claimant."""
        gone = {uid: entry.frees for uid, entry in self._gone.items()}
        return {**gone, **{uid: entry.frees for uid, entry in self._going.items()}}

    @property
    def going(self) -> frozenset[str]:
        """The UIDs of pods that are on their way out; none that is only pretended."""
        return frozenset(
            uid for uid, entry in self._going.items() if not (entry.ours and self._pretended)
        )

    def book(
        self,
        pod: PodView,
        resource: str,
        frees: Mapping[Reason, float],
        grace: float,
        now: float,
        *,
        stays: bool = False,
    ) -> None:
        """A pod is being evicted from now on, and has ``grace`` seconds to end in.

        ``stays`` is whether it counts as gone as soon as none of its containers runs.
        """
        uid, patience = pod.uid, min(grace, _LONGEST_GRACE) + _MARGIN
        asking = 0.0 if self._pretended else _ASKING
        self._evicted.append(_PastEviction(uid, family(resource), now))
        self._going[uid] = _TerminatingPod(
            now, now + patience + asking, patience, frees, stays=stays
        )
        self._attempts[uid] = self._attempts.get(uid, 0) + 1
        self._warned.pop(uid, None)

    def accepted(self, uid: str, now: float) -> None:
        """Note that its eviction has begun."""
        if uid in self._going:
            self._going[uid].until = now + self._going[uid].patience

    def refused(
        self, uid: str, reason: str, now: float, *, after: float = 0.0, happened: bool = False
    ) -> None:
        """Bar a pod whose eviction was refused, for ``after`` seconds at least, longer each time.

        ``happened`` is whether it counts all the same, as its result is unknown.
        """
        self._going.pop(uid, None)
        if not happened:
            self._take_back(uid)
        self._bar(uid, reason, now, after)

    def warn(self, uid: str, now: float) -> bool:
        """Note that a pod is to go soon; return whether that is new, so that it needs an Event."""
        known = self._warned.get(uid)
        if known is None:
            self._warned[uid] = _WarningTimes(now, now)
            return True
        known.last = now
        return False

    def _take_back(self, uid: str) -> None:
        """Remove the last eviction of a pod."""
        for place, entry in reversed(list(enumerate(self._evicted))):
            if entry.uid == uid:
                del self._evicted[place]
                break
        self._attempts[uid] = max(0, self._attempts.get(uid, 0) - 1)

    def _ended(self, pod: PodView) -> bool:
        """True if a pod that stays has ended all the same."""
        going = self._going.get(pod.uid)
        return going is not None and going.stays and not pod.record.containers

    def _late(self, uid: str, now: float, pod: PodView | None) -> OverduePod | None:
        """Stop expecting a pod that has not terminated to free anything."""
        going = self._going.pop(uid)
        if going.ours and self._pretended:
            return None
        if pod is not None and pod.demand is not None and pod.demand.terminating:
            self._stuck.add(uid)
        attempts = self._attempts.get(uid, 0)
        reason = f"has not gone {now - going.since:.0f} s after its eviction"
        if attempts >= _ATTEMPTS:
            self._barred[uid] = _RetryDelay(
                float("inf"), f"has not gone after {attempts} evictions", 0
            )
        else:
            self._bar(uid, reason, now)
        if pod is None:
            return None
        strategy = next((name for name, *_ in going.frees), "")
        return OverduePod(pod, strategy, now - going.since, attempts if going.ours else 0)

    def _bar(self, uid: str, reason: str, now: float, after: float = 0.0) -> None:
        times = self._barred[uid].times + 1 if uid in self._barred else 1
        seconds = max(after, exponential(_BAR, _LONGEST_BAR, times))
        self._barred[uid] = _RetryDelay(now + seconds, reason, times)

    def _forget(self, present: Set[str], now: float) -> None:
        """Pods that are not there any more."""
        for uid in self._going.keys() - present:
            self._gone[uid] = _DeletedPod(now + self.limits.settles, self._going[uid].frees)
        for known in (self._going, self._barred, self._attempts, self._warned):
            for uid in known.keys() - present:
                del known[uid]
        self._stuck &= present


def family(resource: str) -> str:
    """The kind of a resource that cools together: "cpu" is batch-cpu's too."""
    return next((kind for kind in ("cpu", "memory") if resource.endswith(kind)), resource)


def grace_seconds(pod: PodView) -> float:
    """The pod's termination grace period."""
    said = pod.demand.grace_seconds if pod.demand is not None else None
    return _GRACE if said is None else float(said)
