"""Selects evictions for claims: no more than needed, and no pod that is protected. No IO.

Claims are served in one order: those that may not wait first, then rules for best-effort
pods, for what was promised, for use, thresholds of our own, and plugins of others. For each claim:

1. What pods on their way out free counts: those chosen before in this round, those of earlier
   rounds that are still there or have just gone, and those that end for other reasons. It
   counts for all claims of the resource, whichever of them it was for.
2. Within the cool time of its resource nothing more is chosen, unless it may not wait.
3. What was evicted in vain lately (``effect``) is not served.
4. Its victims are taken in their order until enough is freed, or the minute's budget is spent.
   A pod that the guard or the account bars is passed over, and the next one taken. So is one
   without which enough is freed by those after it, and one that frees next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    PodView,
    StrategyMode,
    Term,
)
from koordlet.qos_manager.eviction.policy.account import EvictionAllowance, Reason

Claimed = tuple[str, StrategyMode, EvictionClaim]
"""A claim, with the strategy that makes it and its mode."""
Decided = tuple[str, StrategyMode, Decision]

_ROUNDING = 1e-9
_LEAST_SHARE = 0.01
"""Least part of the need that a pod must free.

A node has hardly more than a hundred pods, so that smaller ones hardly help together.
"""
_UNITS = {"cpu": "cores", "memory": "bytes"}
_FOREIGN = 4
"""The rank of plugins of others, after all of our rules."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod to evict, and why.

    ``frees`` is what each claim gets of it, by who makes it: not only the one it is for.
    """

    pod: PodView
    strategy: str
    mode: StrategyMode
    claim: EvictionClaim
    decision: Decision
    frees: Mapping[Reason, float] = field(default_factory=dict)


class EvictionWarning(NamedTuple):
    """A pod that is evicted in ``seconds`` unless the shortage ends."""

    pod: PodView
    strategy: str
    claim: EvictionClaim
    seconds: float


@dataclass(frozen=True, slots=True)
class EvictionSelection:
    """The result of a round's claims."""

    evictions: tuple[Eviction, ...] = ()
    warned: tuple[EvictionWarning, ...] = ()
    decisions: tuple[Decided, ...] = ()


def select_evictions(
    claims: Sequence[Claimed],
    room: EvictionAllowance,
    refusal: Callable[[PodView, EvictionClaim], str],
    *,
    only_shown: bool = False,
) -> EvictionSelection:
    """Select pods to evict; ``refusal`` says why a pod may not be evicted, "" if it may.

    ``only_shown`` is whether nothing of it will be done: the decisions then say so.
    """
    word = "would be evicted" if only_shown else "is to be evicted"
    round_ = _Selector(room, refusal, word, claims)
    for strategy, mode, claim in sorted(claims, key=order):
        round_.serve(strategy, mode, claim)
    return EvictionSelection(tuple(round_.evictions), tuple(round_.warned), tuple(round_.decisions))


def order(claimed: Claimed) -> tuple[bool, int, str, str, str, float]:
    """The sort key of a claim: the lowest is served first."""
    strategy, _, claim = claimed
    # The name of others' rules is whatever they say.
    rank_ = _FOREIGN if claim.foreign else rank(claim.rule)
    return not claim.forced, rank_, strategy, claim.rule, claim.resource, -claim.need


def rank(rule: str) -> int:
    """The rank of a rule by its name: Koordinator's order, and our own rules last."""
    name = rule.lower()
    if name.startswith("be"):
        return 0
    if "allocatable" in name:
        return 1
    return 2 if name in ("cpuevict", "memoryevict") or name.endswith("usage") else 3


class _Selector:
    def __init__(
        self,
        room: EvictionAllowance,
        refusal: Callable[[PodView, EvictionClaim], str],
        word: str,
        claims: Sequence[Claimed],
    ) -> None:
        self._room = room
        self._refusal = refusal
        self._word = word
        self._claims = claims
        self._left = room.left
        self._chosen: dict[str, Mapping[Reason, float]] = {}
        self.evictions: list[Eviction] = []
        self.warned: list[EvictionWarning] = []
        self.decisions: list[Decided] = []

    def serve(self, strategy: str, mode: StrategyMode, claim: EvictionClaim) -> None:
        """Choose for one claim."""
        if not claim.need > 0:
            return
        ask = _OpenClaim(strategy, mode, claim, _unit(claim))
        ask.expected = self._expected(strategy, claim)
        if ask.rest <= 0:
            self._say(ask, "no eviction: enough is freed by pods that are on their way out")
            return
        cooling = 0.0 if claim.forced else self._room.cooling(claim.resource)
        if cooling > 0:
            more = (Term("cool time left", cooling, "s"),)
            self._say(ask, "no eviction yet: one was a short time ago, or koordlet started", *more)
            return
        pause = self._room.in_vain.get((strategy, claim.rule, claim.resource), 0.0)
        if pause > 0:
            more = (Term("pause left", pause, "s"),)
            self._say(ask, "no eviction: the last ones did not lower what is needed", *more)
            return
        waits = self._take(ask)
        if ask.rest > 0:
            self._say(ask, f"not enough: {waits}")

    def _expected(self, strategy: str, claim: EvictionClaim) -> float:
        """Return the release of terminating pods, whether the claim still names them or not."""
        known = strategy, claim.rule, claim.resource
        going = {**self._room.going, **self._chosen}
        found = {uid: _freed(frees, known) for uid, frees in going.items()}
        found |= {
            pod.uid: max(0.0, releases) for pod, releases in claim.victims if pod.uid in going
        }
        return sum(found.values())

    def _take(self, ask: _OpenClaim) -> str:
        """Take victims until enough is freed; else return why it is not."""
        claim, needed = ask.claim, self._needed(ask)
        for victim in self._candidates(claim):
            if ask.rest <= 0:
                break
            if why := self._bars(victim, claim):
                self._say_of(ask, victim.pod, f"not evicted for {claim.resource}: {why}")
            elif victim.pod.uid not in needed:
                continue
            elif (seconds := self._notice(victim.pod, claim)) > 0:
                self._warn(ask, victim, seconds)
            elif self._left <= (reserved := self._reserved(claim)):
                return f"{self._room.per_minute - reserved} evictions a minute are the most"
            else:
                self._evict(ask, victim)
        return "no further pod may be evicted"

    def _reserved(self, claim: EvictionClaim) -> int:
        """Return the part of the minute's budget that is not for a claim."""
        return self._room.per_minute // 2 if claim.foreign else 0

    def _candidates(self, claim: EvictionClaim) -> list[EvictionVictim]:
        """The victims that are not on their way out; each once."""
        first = {victim.pod.uid: victim for victim in reversed(claim.victims)}
        listed = dict.fromkeys(victim.pod.uid for victim in claim.victims)
        return [
            first[uid] for uid in listed if uid not in self._chosen and uid not in self._room.going
        ]

    def _needed(self, ask: _OpenClaim) -> frozenset[str]:
        """The UIDs of victims that go, in their order, without those that would go for nothing."""
        rest = ask.rest * (1 - _ROUNDING)
        able = [
            candidate
            for candidate in self._candidates(ask.claim)
            if not self._bars(candidate, ask.claim)
        ]
        if sum(candidate.releases for candidate in able) < rest:
            able = [candidate for candidate in able if candidate.releases >= _LEAST_SHARE * rest]
        chosen: list[EvictionVictim] = []
        freed = 0.0
        for big in (True, False):
            for victim in able:
                if freed < rest and (victim.releases >= _LEAST_SHARE * rest) is big:
                    chosen.append(victim)
                    freed += victim.releases
        for victim in sorted(chosen, key=lambda candidate: candidate.releases):
            if freed - victim.releases >= rest:
                chosen.remove(victim)
                freed -= victim.releases
        return frozenset(victim.pod.uid for victim in chosen)

    def _bars(self, victim: EvictionVictim, claim: EvictionClaim) -> str:
        if why := self._refusal(victim.pod, claim) or self._room.barred.get(victim.pod.uid, ""):
            return why
        return "" if victim.releases > 0 else "it would free nothing"

    def _notice(self, pod: PodView, claim: EvictionClaim) -> float:
        """Seconds for which the pod may stay, as its warning is too recent."""
        if claim.forced:
            return 0.0
        return claim.notice_seconds - self._room.warned.get(pod.uid, 0.0)

    def _warn(self, ask: _OpenClaim, victim: EvictionVictim, seconds: float) -> None:
        ask.expected += victim.releases
        self.warned.append(EvictionWarning(victim.pod, ask.strategy, ask.claim, seconds))
        text = f"is evicted for {ask.claim.resource} soon, if nothing changes"
        self._say_of(ask, victim.pod, text, Term("notice left", seconds, "s"))

    def _evict(self, ask: _OpenClaim, victim: EvictionVictim) -> None:
        claim = ask.claim
        before = claim.decision
        given = (
            *before.given,
            Term("still to be freed", ask.rest, ask.unit),
            Term("frees", victim.releases, ask.unit),
        )
        text = f"{self._word}: {before.outcome} ({claim.rule})"
        decision = Decision(
            text, before.formula, given, pod=victim.pod.name, aspect=f"eviction {claim.resource}"
        )
        self._left -= 1
        frees = self._chosen[victim.pod.uid] = _frees(victim.pod, self._claims)
        ask.expected += victim.releases
        self.evictions.append(Eviction(victim.pod, ask.strategy, ask.mode, claim, decision, frees))
        self.decisions.append((ask.strategy, ask.mode, decision))

    def _say(self, ask: _OpenClaim, outcome: str, *more: Term) -> None:
        given = (
            Term("need", ask.claim.need, ask.unit),
            Term("on its way", ask.expected, ask.unit),
            Term("still to be freed", max(ask.claim.need - ask.expected, 0.0), ask.unit),
            *more,
        )
        text = f"{ask.claim.resource}: {outcome}"
        aspect = f"claim {ask.claim.rule} {ask.claim.resource}"
        decision = Decision(text, _STILL, given, aspect=aspect)
        self.decisions.append((ask.strategy, ask.mode, decision))

    def _say_of(self, ask: _OpenClaim, pod: PodView, outcome: str, *given: Term) -> None:
        aspect = f"eviction {ask.claim.resource}"
        decision = Decision(outcome, given=given, pod=pod.name, aspect=aspect)
        self.decisions.append((ask.strategy, ask.mode, decision))


_STILL = "still to be freed = max(need − on its way, 0)"


@dataclass(slots=True)
class _OpenClaim:
    """A claim while it is being served; ``expected`` is what is freed for it so far."""

    strategy: str
    mode: StrategyMode
    claim: EvictionClaim
    unit: str
    expected: float = 0.0

    @property
    def rest(self) -> float:
        """Amount still to be freed; a rest by rounding alone is none."""
        rest = self.claim.need - self.expected
        return rest if rest > _ROUNDING * self.claim.need else 0.0


def _frees(pod: PodView, claims: Sequence[Claimed]) -> dict[Reason, float]:
    """Return each claim's share of a pod; of several claims of one kind the largest share."""
    frees: dict[Reason, float] = {}
    for strategy, _, claim in claims:
        known = strategy, claim.rule, claim.resource
        for releases in _releases(pod, claim):
            if releases > frees.get(known, 0.0):
                frees[known] = releases
    return frees


def _freed(frees: Mapping[Reason, float], claim: Reason) -> float:
    """Return a claim's share of a pod that goes.

    By its own calculation; if it does not name the pod, by that of others of its resource.
    """
    if claim in frees:
        return frees[claim]
    return max((freed for other, freed in frees.items() if other[-1] == claim[-1]), default=0.0)


def _releases(pod: PodView, claim: EvictionClaim) -> Iterator[float]:
    return (victim.releases for victim in claim.victims if victim.pod.uid == pod.uid)


def _unit(claim: EvictionClaim) -> str:
    """The unit of a claim's numbers: that of its own "need", where its decision has one."""
    units = (given.unit for given in claim.decision.given if given.name == "need")
    return next(units, _UNITS.get(claim.resource, ""))
