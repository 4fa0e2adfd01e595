"""Claims of eviction plugins' answers: as ours, in pods, and after all of ours. No IO.

A plugin may name pods (GetEvictPods): each is to go. Or a threshold is passed: of a hard one the
pod that it names goes at once, of a soft one a pod at a time, in our order and then in the
plugin's. While a pod that it named is on its way out, and until it has been asked after that, its
threshold claims nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from koord_model.qos import QoSClass

from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    PodNotice,
    PodView,
    StrategyView,
    Term,
)
from koordlet.qos_manager.eviction.claims import eviction_claim, ranking
from koordlet.qos_manager.eviction.plugins.core.answers import PluginAnswer
from koordlet.qos_manager.eviction.policy import guard

ANNOTATION_SOFT_NOTICE = "katalyst.kubewharf.io/pod_soft_evict_notify"
"""Katalyst's: a pod with "true" is warned by soft rules, and not evicted."""
OLD_SECONDS = 15.0
"""Age of an answer that counts for nothing any more: three rounds of questions."""
_NOTICE_REASON = "MayBeEvicted"
_MOST_REASONS = 400


@dataclass(frozen=True, slots=True)
class PluginMemory:
    """Pods that a plugin's claims named and that are still there; when one was last going."""

    named: frozenset[str] = frozenset()
    going: float = float("-inf")


class PluginResult(NamedTuple):
    """Claims and decisions of one plugin's answer."""

    memory: PluginMemory
    decisions: tuple[Decision, ...] = ()
    claims: tuple[EvictionClaim, ...] = ()
    notices: tuple[PodNotice, ...] = ()


def offered(
    pods: Iterable[PodView], plugin: str, priority: int, own: frozenset[str] = frozenset()
) -> tuple[PodView, ...]:
    """The pods that may be evicted for a plugin; ``own`` are the names of koordlet's own pod."""
    claim = EvictionClaim(plugin, "", 0.0, (), Decision(""))
    best_effort = replace(claim, opt_in=False)
    return tuple(
        pod
        for pod in ranking.up_to(pods, priority)
        if not guard.refusal(pod, best_effort if pod.asked_qos is QoSClass.BE else claim, own)
    )


def claims_of(
    view: StrategyView, answer: PluginAnswer, priority: int, memory: PluginMemory
) -> PluginResult:
    """Claim what an answer says, of pods up to a priority."""
    here = {pod.uid: pod for pod in view.pods}
    named = memory.named & here.keys()
    memory = PluginMemory(named, view.steady if named & view.evicting else memory.going)
    if view.steady - answer.asked_at > OLD_SECONDS:
        return PluginResult(memory, (_decision(answer, "no eviction: its last answer is old"),))
    pods = {pod.uid: pod for pod in ranking.up_to(view.pods, priority)}
    claims = (*_of_named(answer, pods), *_of_threshold(answer, pods, memory))
    decisions = [claim.decision for claim in claims]
    if answer.problem:
        decisions.append(_decision(answer, f"no answer: {answer.problem}", aspect="problem"))
    if not decisions:
        decisions.append(_decision(answer, "it wants no pod to be evicted"))
    notices, open_claims = _warn_only(claims)
    uids = named | {victim.pod.uid for claim in open_claims for victim in claim.victims}
    both = tuple(part for claim in open_claims for part in _by_class(claim))
    return PluginResult(replace(memory, named=uids), tuple(decisions), both, notices)


def _of_named(answer: PluginAnswer, pods: Mapping[str, PodView]) -> Iterator[EvictionClaim]:
    """Pods that the plugin names: all of those that may not wait, of the others one at a time."""
    for forced in (True, False):
        found = [one for one in answer.named if one.forced is forced and one.uid in pods]
        if not found:
            continue
        reasons = ", ".join(dict.fromkeys(one.reason for one in found))[:_MOST_REASONS]
        word = "at once" if forced else "one at a time"
        decision = _decision(
            answer, f"it wants pods to be evicted {word}: {reasons}", aspect=f"named {word}"
        )
        yield EvictionClaim(
            answer.plugin,
            "pods (force)" if forced else "pods (soft)",
            float(len(found)) if forced else 1.0,
            _victims((one.uid for one in found), pods),
            decision,
            forced=forced,
            notice_seconds=0.0 if forced else max(one.notice_seconds for one in found),
            foreign=True,
        )


def _of_threshold(
    answer: PluginAnswer, pods: Mapping[str, PodView], memory: PluginMemory
) -> Iterator[EvictionClaim]:
    met = answer.met
    if met is None:
        return
    victims = _victims(met.targets, pods)
    name = f"{'hard' if met.hard else 'soft'} {met.scope}"
    if met.lasted < met.grace_seconds:
        outcome, need = f"{name} is passed: in its grace period", 0.0
    elif answer.asked_at <= memory.going:
        outcome, need = f"{name} is passed: no further pod until it is asked again", 0.0
    elif not victims:
        outcome, need = f"{name} is passed, but it names no pod that may be evicted", 0.0
    else:
        outcome, need = f"{name} is passed: a pod is to be evicted", 1.0
    given = (
        Term("observed", met.observed),
        Term("threshold", met.threshold),
        Term("passed for", met.lasted, "s"),
        Term("grace", met.grace_seconds, "s"),
    )
    yield EvictionClaim(
        answer.plugin,
        f"pods ({met.scope})",
        need,
        victims if need else (),
        _decision(answer, outcome, *given, aspect="threshold"),
        forced=met.hard,
        notice_seconds=0.0 if met.hard else met.notice_seconds,
        foreign=True,
    )


def _victims(uids: Iterable[str], pods: Mapping[str, PodView]) -> tuple[EvictionVictim, ...]:
    """Pods in our order, and within a priority in the plugin's; each frees one pod."""
    place = {uid: number for number, uid in enumerate(uids)}
    listed = [pods[uid] for uid in place if uid in pods]
    return ranking.lowest_first(listed, lambda _: 1.0, lambda pod: -float(place[pod.uid]))


def _warn_only(
    claims: Iterable[EvictionClaim],
) -> tuple[tuple[PodNotice, ...], tuple[EvictionClaim, ...]]:
    """Leave pods out of soft claims that only want a warning, and warn them."""
    notices: dict[str, PodNotice] = {}
    kept = []
    for claim in claims:
        warned = [] if claim.forced else [pod for pod, _ in claim.victims if _is_warned_only(pod)]
        message = f"may be evicted: {claim.decision.outcome} ({claim.rule})"
        notices |= {
            pod.uid: PodNotice(pod, _NOTICE_REASON, message, of_eviction=True) for pod in warned
        }
        victims = tuple(victim for victim in claim.victims if victim.pod not in warned)
        if victims:
            kept.append(replace(claim, victims=victims))
    return tuple(notices.values()), tuple(kept)


def _is_warned_only(pod: PodView) -> bool:
    return pod.record.pod.annotations.get(ANNOTATION_SOFT_NOTICE, "").lower() == "true"


def _by_class(claim: EvictionClaim) -> Iterator[EvictionClaim]:
    best_effort = [victim for victim in claim.victims if victim.pod.asked_qos is QoSClass.BE]
    others = [victim for victim in claim.victims if victim.pod.asked_qos is not QoSClass.BE]
    on_best_effort, on_all = eviction_claim.by_class(claim, best_effort, others)
    if best_effort:
        yield on_best_effort
    if others:
        yield on_all


def _decision(answer: PluginAnswer, outcome: str, *given: Term, aspect: str = "") -> Decision:
    given += (Term("pods offered", answer.offered),)
    if answer.strange:
        given += (Term("pods named that were not offered", answer.strange),)
    plugin = answer.plugin
    return Decision(f"{plugin}: {outcome}", given=given, aspect=f"plugin {plugin} {aspect}".strip())
