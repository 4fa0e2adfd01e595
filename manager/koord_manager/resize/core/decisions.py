"""Decisions about a source's pods: which are resized now, and why others are not. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from koord_model.decision import Decision
from koord_model.demand import Amounts
from koord_model.quantity import quantity_text

from koord_manager.resize.core import record as records
from koord_manager.resize.core.desired import ResizableResources, desired
from koord_manager.resize.core.pods import ResizePod
from koord_manager.resize.core.policy import ResizeMode
from koord_manager.resize.core.record import NO_REPORT, ResizeRecord, Resources, ThrottlingReport
from koord_manager.resize.core.sources import ResizeSource

_OBSERVE_SECONDS = 600.0
"""Pods are watched for so long after a resize before others of their workload follow."""
_AT_ONCE = 0.1
"""Part of a workload's pods that are resized at once; one pod at least."""


class ResizeAction(StrEnum):
    """Decision about a pod."""

    NONE = "none"
    SHADOW = "shadow"
    WAIT = "wait"
    RESIZE = "resize"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class PodDecision:
    """A pod's resize: to ``resources``, of those containers alone that change."""

    pod: ResizePod
    action: ResizeAction
    reason: str
    resources: Resources = field(default_factory=dict)
    before: Resources = field(default_factory=dict)

    @property
    def changes(self) -> str:
        """The change of each container, in a line; "" if nothing changes."""
        return "; ".join(
            f"{name}: {_change(self.before[name], after)}"
            for name, after in sorted(self.resources.items())
        )

    def __str__(self) -> str:
        return ": ".join(part for part in (self.changes, self.reason) if part)

    def decision(self) -> Decision:
        """As pages show it."""
        return Decision(f"{self.action}: {self}", pod=self.pod.key, aspect="resize")


def decide(
    pod: ResizePod, source: ResizeSource, now: float, report: ThrottlingReport = NO_REPORT
) -> PodDecision:
    """The decision about one pod, as if it were the only one of its workload."""
    try:
        known = records.read(pod)
    except ValueError as error:
        return PodDecision(pod, ResizeAction.NONE, str(error))
    if known is not None:
        harm = records.harm(pod, known, report)
        if harm:
            after = {
                name: records.restored(known, name, hurt.resources) for name, hurt in harm.items()
            }
            reasons = "; ".join(hurt.reason for hurt in harm.values())
            return _to(pod, ResizeAction.UNDO, after, reasons)
    reason = _refusal(pod, source, now)
    if reason:
        return PodDecision(pod, ResizeAction.NONE, reason)
    return _resize(pod, source, known, now)


def initial(pod: ResizePod, source: ResizeSource, now: float) -> PodDecision:
    """The decision about a pod that is being created."""
    if source.policy.mode is not ResizeMode.INITIAL:
        return PodDecision(pod, ResizeAction.NONE, f"mode {source.policy.mode}")
    reason = source.problem_at(now) or pod.refusal
    if reason:
        return PodDecision(pod, ResizeAction.NONE, reason)
    action = ResizeAction.SHADOW if source.policy.shadow else ResizeAction.RESIZE
    return _to(pod, action, _desired(pod, source, now), _by(source))


def paced(
    decisions: Sequence[PodDecision], now: float, busy: Collection[str] = ()
) -> list[PodDecision]:
    """The decisions about all pods of a source: a few at once, then the others.

    Those come when the first have been watched. What is undone waits for nothing. ``busy`` are
    pods, by namespace/name, that are being resized.
    """
    room = max(1, int(len(decisions) * _AT_ONCE))
    room -= sum(
        decision.pod.key in busy or _is_watched(decision.pod, now) for decision in decisions
    )
    found: list[PodDecision] = []
    for decision in decisions:
        if decision.action is ResizeAction.RESIZE and decision.pod.key not in busy:
            if room <= 0:
                reason = "other pods of its workload come first"
                decision = replace(decision, action=ResizeAction.WAIT, reason=reason)
            room -= 1
        found.append(decision)
    return found


def undone(decision: PodDecision) -> Mapping[str, Amounts]:
    """Requests that may not be lowered again, by container, of a resize that is undone."""
    return {
        name: records.lowered(before, decision.before[name])
        for name, before in decision.resources.items()
    }


def _refusal(pod: ResizePod, source: ResizeSource, now: float) -> str:
    if source.problem_at(now):
        return source.problem_at(now)
    if source.policy.mode is ResizeMode.OFF:
        return "its mode is off"
    return pod.refusal


def _resize(
    pod: ResizePod, source: ResizeSource, known: ResizeRecord | None, now: float
) -> PodDecision:
    after = _desired(pod, source, now)
    policy = source.policy
    if not after:
        return PodDecision(pod, ResizeAction.NONE, "it has what is recommended, or nearly")
    restarted = "" if policy.restart else ", ".join(_restarted(pod, after))
    if restarted:
        reason = f"{restarted} would restart by its resizePolicy; the policy has not restart: true"
        return _to(pod, ResizeAction.NONE, after, reason)
    if policy.mode is ResizeMode.INITIAL:
        reason = "mode initial: only pods that are created get that"
        return _to(pod, ResizeAction.SHADOW if policy.shadow else ResizeAction.NONE, after, reason)
    if policy.shadow:
        return _to(pod, ResizeAction.SHADOW, after, f"shadow; {_by(source)}")
    if pod.pending:
        return _to(pod, ResizeAction.WAIT, after, pod.pending)
    if known is not None and not records.is_unfinished(pod, known) and _is_watched(pod, now):
        return _to(pod, ResizeAction.WAIT, after, "its last resize is being watched")
    return _to(pod, ResizeAction.RESIZE, after, _by(source))


def _desired(pod: ResizePod, source: ResizeSource, now: float) -> Resources:
    found = {
        name: desired(
            current,
            source.recommended.get(name, {}),
            source.policy.of(name),
            source.floors_of(name, now),
        )
        for name, current in pod.containers.items()
    }
    return {name: after for name, after in found.items() if after != pod.containers[name]}


def _restarted(pod: ResizePod, after: Resources) -> Iterator[str]:
    for name, resources in sorted(after.items()):
        if _changed(pod.containers[name], resources) & {
            resource for container, resource in pod.restarts if container == name
        }:
            yield name


def _changed(before: ResizableResources, after: ResizableResources) -> set[str]:
    parts = (before.requests, after.requests), (before.limits, after.limits)
    return {name for old, new in parts for name in new if old.get(name) != new[name]}


def _is_watched(pod: ResizePod, now: float) -> bool:
    try:
        known = records.read(pod)
    except ValueError:
        return False
    if known is None or records.is_unfinished(pod, known):
        return False
    return now - known.at < _OBSERVE_SECONDS


def _to(pod: ResizePod, action: ResizeAction, after: Resources, reason: str) -> PodDecision:
    before = {name: pod.containers.get(name, ResizableResources()) for name in after}
    return PodDecision(pod, action, reason, after, before)


def _by(source: ResizeSource) -> str:
    return f"by {source}"


def _change(before: ResizableResources, after: ResizableResources) -> str:
    parts = (
        ("", before.requests, after.requests),
        ("limit of ", before.limits, after.limits),
    )
    return ", ".join(
        f"{prefix}{name} {quantity_text(name, old.get(name, 0))} → {quantity_text(name, new[name])}"
        for prefix, old, new in parts
        for name in sorted(new)
        if old.get(name) != new[name]
    )
