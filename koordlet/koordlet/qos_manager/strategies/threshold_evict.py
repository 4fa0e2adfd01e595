"""Evicts pods when the node is past thresholds of our own: soft ones after a grace period.

As the kubelet and Katalyst's eviction manager have them. A hard threshold claims at once and
may not wait. A soft one must be passed for its whole grace period; the pods that would go
first are warned when that begins, once each for as long as it is passed. While pods are on
their way out, and until an average no longer shows what they did, thresholds that go by averages
claim nothing more.

Best-effort pods go first; others only if they agreed to be evicted. Among them the lowest
priority class, then the lowest priority, then the pod that uses most. Set in the NodeSLO::

    extensions:
      pykoord:
        strategies:
          threshold_evict:
            thresholds:
            - {signal: memory.available, percent: 10, grace_seconds: 120}
            - {signal: memory.available, quantity: 536870912, hard: true}
            - {signal: memory.pressure, percent: 20, average: avg10}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    Plan,
    PodNotice,
    StrategyView,
    Term,
    shown,
)
from koordlet.qos_manager.eviction.claims import eviction_claim, ranking
from koordlet.qos_manager.eviction.claims.episodes import ThresholdEpisode, advance
from koordlet.qos_manager.eviction.claims.node_signals import (
    SignalReading,
    observe,
    releases,
    weight,
)
from koordlet.qos_manager.eviction.claims.node_thresholds import NodeThreshold
from koordlet.qos_manager.eviction.policy import guard

GATE = "ThresholdEvict"
INTERVAL = "reconcile_interval_seconds"

_NOTICE_REASON = "MayBeEvicted"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the NodeSLO's ``extensions``; without them there is no threshold."""

    thresholds: tuple[NodeThreshold, ...] = ()
    """Thresholds of the node; each counts by itself."""
    priority: Annotated[int, Meta(ge=0, le=7999)] = 7999
    """Pods up to this ``spec.priority``, or their class's without one, may go."""


def settings(slo: NodeSLO) -> Settings:
    """No thresholds: Koordinator's NodeSLO has none of these."""
    return Settings()


class _Victims(NamedTuple):
    """Best-effort pods, which go first, and others, which must have agreed."""

    best_effort: tuple[EvictionVictim, ...]
    others: tuple[EvictionVictim, ...]


class _ThresholdResult(NamedTuple):
    """The result of one threshold."""

    decision: Decision
    episode: ThresholdEpisode | None = None
    claims: tuple[EvictionClaim, ...] = ()
    notices: tuple[PodNotice, ...] = ()


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Claims of the thresholds that are passed."""
    if not settings.thresholds:
        return eviction_claim.off("no thresholds are set")
    if (waiting := eviction_claim.waits(view)) is not None:
        return replace(waiting, memory=memory)
    before = memory if isinstance(memory, Mapping) else {}
    found = {
        threshold: _of(view, threshold, settings, before.get(threshold))
        for threshold in settings.thresholds
    }
    notices = {notice.pod.uid: notice for what in found.values() for notice in what.notices}
    return Plan(
        decisions=tuple(state.decision for state in found.values()),
        claims=_foremost(found),
        notices=tuple(notices.values()),
        memory={
            threshold: what.episode for threshold, what in found.items() if what.episode is not None
        },
    )


def _of(
    view: StrategyView,
    threshold: NodeThreshold,
    settings: Settings,
    before: ThresholdEpisode | None,
) -> _ThresholdResult:
    observed = observe(view, threshold)
    passed = None if observed is None else observed.need > 0
    episode = advance(before, passed, view.steady, going=_going(view, settings))
    if observed is None:
        outcome = f"{threshold}: no eviction, for it is not known"
        return _ThresholdResult(Decision(outcome, aspect=str(threshold)), episode)
    if episode is None:
        return _ThresholdResult(_decision(threshold, observed, "no eviction, for it is not passed"))
    if not threshold.hard and episode.lasted(view.steady) < threshold.grace_seconds:
        return _in_grace(view, threshold, settings, observed, episode)
    if not threshold.hard and view.steady - episode.going < threshold.settles_seconds:
        outcome = "no further eviction until the average shows what the last one did"
        return _ThresholdResult(_decision(threshold, observed, outcome), episode)
    victims = _victims(view, threshold, settings)
    if not any(victims):
        outcome = "it is passed, but this rule has no pod to evict"
        return _ThresholdResult(_decision(threshold, observed, outcome), episode)
    decision = _decision(threshold, observed, "it is passed, and pods are to be evicted")
    on_best_effort, on_all = _claims(threshold, observed, victims, decision)
    claims = [on_best_effort] * bool(victims.best_effort) + [on_all] * bool(victims.others)
    return _ThresholdResult(decision, episode, tuple(claims))


def _in_grace(
    view: StrategyView,
    threshold: NodeThreshold,
    settings: Settings,
    observed: SignalReading,
    episode: ThresholdEpisode,
) -> _ThresholdResult:
    grace = shown(threshold.grace_seconds, "s")
    outcome = f"it is passed, and pods are to be evicted if it is for {grace}"
    decision = _decision(threshold, observed, outcome)
    victims = _victims(view, threshold, settings)
    on_best_effort, on_all = _claims(threshold, observed, victims, decision)
    # Do not warn pods that may not be evicted.
    allowed = (
        victim
        for claim, listed in ((on_best_effort, victims.best_effort), (on_all, victims.others))
        for victim in listed
        if not guard.refusal(victim.pod, claim)
    )
    first = ranking.first_to_go(allowed, observed.need)
    message = f"may be evicted if the node is past its threshold for {grace}: {threshold}"
    notices = [
        PodNotice(pod, _NOTICE_REASON, message, of_eviction=True)
        for pod in first
        if pod.uid not in episode.warned
    ]
    return _ThresholdResult(
        decision, episode.with_warned(pod.uid for pod in first), notices=tuple(notices)
    )


def _going(view: StrategyView, settings: Settings) -> bool:
    """True if a pod that may be evicted is on its way out."""
    return bool(view.evicting) and any(
        pod.uid in view.evicting for pod in ranking.up_to(view.pods, settings.priority)
    )


def _victims(view: StrategyView, threshold: NodeThreshold, settings: Settings) -> _Victims:
    freed, weighed = releases(view, threshold), weight(view, threshold)
    pods = tuple(ranking.up_to(view.pods, settings.priority))
    best_effort = [pod for pod in pods if pod.asked_qos is QoSClass.BE]
    others = [pod for pod in pods if pod.asked_qos is not QoSClass.BE]
    return _Victims(
        ranking.lowest_first(best_effort, freed, weighed),
        ranking.lowest_first(others, freed, weighed),
    )


def _claims(
    threshold: NodeThreshold, observed: SignalReading, victims: _Victims, decision: Decision
) -> tuple[EvictionClaim, EvictionClaim]:
    """One claim on best-effort pods, and one on all."""
    claim = EvictionClaim(
        GATE,
        observed.resource,
        observed.need,
        (),
        decision,
        forced=threshold.hard,
        notice_seconds=0.0 if threshold.hard else threshold.notice_seconds,
    )
    return eviction_claim.by_class(claim, victims.best_effort, victims.others)


def _foremost(found: Mapping[NodeThreshold, _ThresholdResult]) -> tuple[EvictionClaim, ...]:
    """Of the claims of one resource those that are forced, or need more: not all on top."""
    best: dict[str, tuple[EvictionClaim, ...]] = {}
    for claims in (what.claims for what in found.values() if what.claims):
        known = best.get(claims[0].resource)
        if known is None or _weight(claims) > _weight(known):
            best[claims[0].resource] = claims
    return tuple(claim for claims in best.values() for claim in claims)


def _weight(claims: tuple[EvictionClaim, ...]) -> tuple[bool, float]:
    return claims[0].forced, claims[0].need


def _decision(threshold: NodeThreshold, observed: SignalReading, outcome: str) -> Decision:
    given = (*observed.given, Term("need", observed.need, observed.unit))
    return Decision(f"{threshold}: {outcome}", observed.formula, given, aspect=str(threshold))
