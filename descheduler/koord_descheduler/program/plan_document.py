"""Plans and refusals as plain data, for pages and koordctl. No IO."""

from __future__ import annotations

from collections import Counter
from typing import Any

from koord_model.times import rfc3339

from koord_descheduler.migration.core.job import JobPhase, MigrationJob
from koord_descheduler.planner.move import Move, MoveRefusal, RoundPlan

Document = dict[str, Any]

_MOST_REFUSALS = 1000
"""Of a plan that is shown; ``why`` knows all of them."""
_SHOWN = 20
"""At a glance."""


def plan_document(plan: RoundPlan) -> Document:
    """A plan: its moves in order, its refusals, and how many there are by rule."""
    return {
        "at": rfc3339(plan.at),
        "moves": [move_document(move) for move in plan.moves],
        "refusals": [refusal_document(refusal) for refusal in plan.refusals[:_MOST_REFUSALS]],
        "refused": dict(Counter(refusal.rule for refusal in plan.refusals).most_common()),
        "notes": dict(plan.notes),
        "annotations": [
            {"pod": desired.pod.key, "plugin": desired.plugin, "values": dict(desired.values)}
            for desired in plan.annotations[:_MOST_REFUSALS]
        ],
    }


def plan_overview(plan: RoundPlan) -> Document:
    """Summarise a plan: its first moves, and the commonest rules by which pods stay."""
    refused = Counter(refusal.rule for refusal in plan.refusals)
    return {
        "at": rfc3339(plan.at),
        "moves": len(plan.moves),
        "first": [move_document(move) for move in plan.moves[:_SHOWN]],
        "refusals": len(plan.refusals),
        "refused": dict(refused.most_common(_SHOWN)),
    }


def move_document(move: Move) -> Document:
    """A move, with the numbers that decided."""
    return {
        "pod": move.pod.key,
        "uid": move.pod.uid,
        "from": move.source,
        "to": move.target,
        "profile": move.profile,
        "plugin": move.plugin,
        "reason": move.reason,
        "group": move.group,
        "arithmetic": dict(move.arithmetic),
    }


def job_document(job: MigrationJob) -> Document:
    """A job, and what it says of itself."""
    return {
        "name": job.name,
        "phase": job.phase or JobPhase.PENDING.value,
        "to": job.node or job.planned_node,
        "reason": job.reason,
        "message": job.message,
    }


def refusal_document(refusal: MoveRefusal) -> Document:
    """A pod that stays, and the rule that keeps it."""
    return {
        "pod": refusal.pod.key,
        "uid": refusal.pod.uid,
        "node": refusal.pod.node,
        "profile": refusal.profile,
        "plugin": refusal.plugin,
        "rule": refusal.rule,
        "why": refusal.why,
    }
