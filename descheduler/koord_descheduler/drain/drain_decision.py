"""One step of a drain: from what is seen to its next phase, and what is to be done. No IO.

The same step may be done twice, after a crash or beside old news: acts name what they are about.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from koord_descheduler.drain.drain_acts import DrainAct, drain_acts
from koord_descheduler.drain.drain_signals import signals
from koord_descheduler.drain.drain_view import DrainStatus, DrainView, wave_of
from koord_descheduler.drain.phases import DrainPhase, DrainSignal, next_phase


class DrainDecision(NamedTuple):
    """The status that is to be recorded first, and then the acts in order."""

    status: DrainStatus
    acts: tuple[DrainAct, ...]


def decide(view: DrainView) -> DrainDecision:
    """Take one step."""
    before, seen = view.status, signals(view)
    phase = next_phase(before.phase, seen)
    status = before._replace(
        phase=phase,
        was_cordoned=_was_cordoned(view),
        confirmed_at=_confirmed_at(view, phase),
        ended_at=_ended_at(view, phase),
        drained=max(before.drained, _succeeded(view)),
    )
    status = status._replace(message=_message(view, status, seen))
    return DrainDecision(status, tuple(drain_acts(view, status)))


def _was_cordoned(view: DrainView) -> bool:
    claim = view.own_claim
    return claim.was_cordoned if claim is not None else view.status.was_cordoned


def _confirmed_at(view: DrainView, phase: DrainPhase) -> float | None:
    before = view.status.confirmed_at
    if phase in (DrainPhase.PENDING, DrainPhase.PLANNING, DrainPhase.WAITING):
        return None
    if phase is DrainPhase.RUNNING and before is None:
        return view.now
    return before


def _ended_at(view: DrainView, phase: DrainPhase) -> float | None:
    """An abort has ended once all is undone."""
    if phase not in (DrainPhase.DRAINED, DrainPhase.FAILED, DrainPhase.ABORTED):
        return None
    before = view.status
    if phase is before.phase and before.ended_at is not None:
        return before.ended_at
    return view.now if phase is not DrainPhase.ABORTED or view.is_undone else None


def _succeeded(view: DrainView) -> int:
    there = {state.job.name for state in view.pods if state.job is not None}
    jobs = view.parts.jobs.values()
    return sum(job.phase == "Succeeded" and job.name not in there for job in jobs)


def _message(view: DrainView, status: DrainStatus, seen: Set[DrainSignal]) -> str:
    total = len(view.pods)
    pods = "1 pod has" if total == 1 else f"{total} pods have"
    match status.phase:
        case DrainPhase.PENDING:
            return _pending_message(view)
        case DrainPhase.PLANNING:
            return f"{sum(state.is_proved for state in view.pods)} of {total} pods have a place"
        case DrainPhase.WAITING if view.spec.is_dry_run:
            return f"dry run: {pods} a place; nothing is done"
        case DrainPhase.WAITING:
            way = f"confirmState Confirmed (koordctl drain {view.spec.node} --confirm)"
            return f"{pods} a place; {way} lets them move"
        case DrainPhase.RUNNING:
            wave = wave_of(view)
            number = wave[0].pod.wave if wave else 0
            return f"wave {number}: {len(wave)} pods; {total} are left"
        case DrainPhase.BLOCKED if DrainSignal.UNCORDONED in seen:
            return "somebody uncordoned the node: paused until it is cordoned, or this is aborted"
        case DrainPhase.BLOCKED:
            return _blocked_message(view)
        case DrainPhase.DRAINED:
            return "no pod is left"
        case DrainPhase.FAILED if view.status.phase is DrainPhase.FAILED:
            return view.status.message
        case DrainPhase.FAILED if DrainSignal.OVERDUE in seen:
            return f"the deadline has passed; {total} pods are left. {_blocked_message(view)}"
        case DrainPhase.FAILED:
            return f"node {view.spec.node} is gone, or is not this drain's any more"
        case _:
            return "all is undone" if view.is_undone else "all that was done is being undone"


def _pending_message(view: DrainView) -> str:
    if view.node is None:
        return f"there is no node {view.spec.node}"
    claim = view.node.claim
    if claim is not None and claim.uid != view.uid:
        return f"DrainNode {claim.drain} drains node {view.node.name}"
    return f"node {view.node.name} is being cordoned"


def _blocked_message(view: DrainView) -> str:
    blocked = [state for state in view.pods if state.is_obstructed]
    if not blocked:
        return ""
    first = blocked[0]
    total = len(view.pods)
    return f"{len(blocked)} of {total} pods cannot move: {first.pod.view.key}: {first.why}"
