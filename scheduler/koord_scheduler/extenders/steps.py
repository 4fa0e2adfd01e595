"""Calls of extenders for one decision, in order. No IO.

Steps are generators: they yield calls, which may go out all at once, and get the answer of each. As
kube-scheduler's ``findNodesThatPassExtenders``, ``prioritizeNodes`` and ``callExtenders``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from koord_scheduler.extenders.calls import (
    CallFailure,
    ExtenderCall,
    FilterCall,
    PreemptCall,
    PrioritizeCall,
    Scores,
)
from koord_scheduler.extenders.extender import Extender
from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.extenders.refusal import NodeFailure
from koord_scheduler.state.pod_usage import PlacedPod

T = TypeVar("T")

Calls = tuple[ExtenderCall, ...]
Steps = Generator[Calls, Sequence[Any], T]


class ExtenderFilterResult(NamedTuple):
    """The nodes that all extenders let pass, and why they did not the others."""

    passed: tuple[str, ...]
    failed: Mapping[str, NodeFailure]


def filter_nodes(
    extenders: Iterable[Extender], pod: str, nodes: tuple[str, ...]
) -> Steps[ExtenderFilterResult | CallFailure]:
    """Ask one after the other, each about what those before it left."""
    passed, failed = nodes, dict[str, NodeFailure]()
    for extender in extenders:
        if not passed:
            break
        if not extender.filter_verb:
            continue
        (answer,) = yield (FilterCall(extender, pod, passed),)
        if not isinstance(answer, CallFailure):
            passed = answer.passed
            failed.update(answer.failed)
        elif not extender.ignorable:
            return answer
    return ExtenderFilterResult(passed, failed)


def prioritize_nodes(
    extenders: Iterable[Extender], pod: str, nodes: tuple[str, ...]
) -> Steps[Scores]:
    """Ask all at once; those that fail count nothing."""
    calls = tuple(
        PrioritizeCall(extender, pod, nodes) for extender in extenders if extender.prioritize_verb
    )
    total: Counter[str] = Counter()
    for answer in (yield calls) if calls else ():
        if not isinstance(answer, CallFailure):
            total.update(answer)
    return total


def choose_candidates(
    extenders: Iterable[Extender],
    pod: str,
    candidates: tuple[Preemption, ...],
    pods_on: Callable[[str], Iterable[PlacedPod] | None],
) -> Steps[tuple[Preemption, ...] | CallFailure]:
    """Let those that preempt choose among candidates, and change their victims."""
    for extender in extenders:
        if not extender.preempt_verb or not candidates:
            continue
        (answer,) = yield (PreemptCall(extender, pod, candidates, pods_on),)
        if not isinstance(answer, CallFailure):
            candidates = answer
        elif not extender.ignorable:
            return answer
    return candidates
