"""Answers of eviction plugins: what of them counts. No IO.

A plugin may say anything. Only UIDs of pods that it was offered count, each once; amounts of time
have bounds, and words are cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace

from koord_model.excerpt import excerpt
from koord_proto.eviction_plugin_pb2 import (
    CNR_CONDITION,
    HARD_MET,
    SOFT_MET,
    Condition,
    EvictPod,
    GetEvictPodsResponse,
    GetTopEvictionPodsResponse,
    ThresholdMetResponse,
)
from koord_proto.kubernetes_pb2 import Pod

MOST_SECONDS = 86_400
"""Longest grace period of a threshold."""
MOST_NOTICE_SECONDS = 3600
_WORDS = 200
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CONDITION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class NamedVictim:
    """A pod that a plugin wants to be evicted.

    ``notice_seconds`` is the time that it gives the pod, ``forced`` whether it is not to wait.
    """

    uid: str
    reason: str
    forced: bool
    notice_seconds: float


@dataclass(frozen=True, slots=True)
class PluginThreshold:
    """A threshold that is passed; ``targets`` are the pods to go, first the first.

    ``lasted`` is for how many seconds it is passed: before ``grace_seconds`` there are no targets.
    """

    hard: bool
    scope: str
    observed: float
    threshold: float
    grace_seconds: float
    lasted: float = 0.0
    targets: tuple[str, ...] = ()
    notice_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PluginCondition:
    """A condition that a plugin wants its node to have: a taint with each of the effects.

    ``on_cnr`` is whether Katalyst would put it on its custom node resource instead of the Node.
    """

    name: str
    effects: tuple[str, ...]
    on_cnr: bool = False


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """One plugin's answer; ``asked_at`` is by the steady clock.

    ``problem`` is why there is none, or only a part. ``offered`` is how many pods it was offered,
    ``strange`` how often it named another.
    """

    plugin: str
    asked_at: float
    offered: int = 0
    named: tuple[NamedVictim, ...] = ()
    met: PluginThreshold | None = None
    conditions: tuple[PluginCondition, ...] = ()
    strange: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PluginAnswers:
    """The newest answers of all plugins, by name."""

    answers: tuple[PluginAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginConditions:
    """Conditions of plugins that are on, by plugin: what the node reports of them."""

    conditions: tuple[tuple[str, PluginCondition], ...] = ()


def conditions_in_force(answers: PluginAnswers, is_on: Callable[[str], bool]) -> PluginConditions:
    """The conditions of plugins that are on, each name once."""
    found = {
        condition.name: (answer.plugin, condition)
        for answer in reversed(answers.answers)
        if is_on(answer.plugin)
        for condition in answer.conditions
    }
    return PluginConditions(tuple(found[name] for name in sorted(found)))


def with_named(
    answer: PluginAnswer, said: GetEvictPodsResponse, offered: Container[str]
) -> PluginAnswer:
    """Add what GetEvictPods answered."""
    pods = {
        entry.pod.metadata.uid: NamedVictim(
            entry.pod.metadata.uid,
            excerpt(entry.reason, _WORDS),
            entry.force_evict,
            _notice(entry),
        )
        for entry in reversed(said.evict_pods)
    }
    uids, strange = _known((entry.pod for entry in said.evict_pods), offered)
    return replace(
        answer,
        named=tuple(pods[uid] for uid in uids),
        strange=answer.strange + strange,
        conditions=answer.conditions + _conditions(said.condition),
    )


def with_threshold(answer: PluginAnswer, said: ThresholdMetResponse) -> PluginAnswer:
    """Add what ThresholdMet answered; targets are still to be asked for."""
    conditions = answer.conditions + _conditions(said.condition)
    if said.met_type not in (SOFT_MET, HARD_MET):
        return replace(answer, conditions=conditions)
    scope = said.eviction_scope
    met = PluginThreshold(
        hard=said.met_type == HARD_MET,
        scope=scope if _SCOPE.fullmatch(scope) else "unnamed",
        observed=_finite(said.observed_value),
        threshold=_finite(said.threshold_value),
        grace_seconds=float(min(max(said.grace_period_seconds, 0), MOST_SECONDS)),
    )
    return replace(answer, met=met, conditions=conditions)


def candidates(said: ThresholdMetResponse, offered: Iterable[str]) -> tuple[str, ...]:
    """The pods that GetTopEvictionPods is about: those it named, or else all offered ones."""
    offered = tuple(offered)
    return _known(said.candidate_pods, offered)[0] or offered


def with_targets(
    answer: PluginAnswer, said: GetTopEvictionPodsResponse, offered: Container[str]
) -> PluginAnswer:
    """Add what GetTopEvictionPods answered: of a hard threshold one pod, whatever it says."""
    if answer.met is None:
        return answer
    uids, strange = _known(said.target_pods, offered)
    met = replace(
        answer.met, targets=uids[:1] if answer.met.hard else uids, notice_seconds=_notice(said)
    )
    return replace(answer, met=met, strange=answer.strange + strange)


def _known(pods: Iterable[Pod], offered: Container[str]) -> tuple[tuple[str, ...], int]:
    """Return the UIDs of offered pods, each once, and how many others there are."""
    named = [pod.metadata.uid for pod in pods]
    known = tuple(dict.fromkeys(uid for uid in named if uid in offered))
    return known, sum(uid not in offered for uid in named)


def _notice(said: EvictPod | GetTopEvictionPodsResponse) -> float:
    return float(min(max(said.deletion_options.grace_period_seconds, 0), MOST_NOTICE_SECONDS))


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0


def _conditions(said: Condition) -> tuple[PluginCondition, ...]:
    """The condition, if it is met and there can be such a taint."""
    on_cnr = said.condition_type == CNR_CONDITION
    effects = tuple(
        effect
        for effect in dict.fromkeys(said.effects)
        # Of a CNR "QOS_LEVEL/EFFECT".
        if (effect.rpartition("/")[2] if on_cnr else effect) in _EFFECTS and len(effect) <= _WORDS
    )
    if not said.met_condition or not effects or not _CONDITION.fullmatch(said.condition_name):
        return ()
    return (PluginCondition(said.condition_name, effects[:8], on_cnr),)
