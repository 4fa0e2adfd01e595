"""Steps of a job, and the changes of its status. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from koord_model.times import rfc3339

from koord_descheduler.migration.core.job import JobCondition, JobPhase, MigrationJob
from koord_descheduler.migration.core.situation import JobSituation

FORBIDDEN = "ForbiddenMigratePod"
UNSCHEDULABLE = "Unschedulable"


class JobAction(StrEnum):
    """The part of a step that is no change of the status."""

    NOTHING = "nothing"
    ARBITRATE = "arbitrate"
    RESERVE = "reserve"
    LINK = "link"
    """The Reservation is there, and the job does not refer to it yet."""
    SET_ORDER = "set order"
    EVICT = "evict"
    FREE = "free"
    """Delete the Reservation."""
    TAKE_BACK = "take back"
    """Remove the notice to the pod's owner."""


class JobEvent(NamedTuple):
    """An Event about the job."""

    reason: str
    message: str
    is_warning: bool = False


class JobStep(NamedTuple):
    """The next step of a job: an action, or a change of the status.

    Changes of objects are looked at as they come; ``again`` is in how many seconds time alone may
    change something.
    """

    action: JobAction = JobAction.NOTHING
    status: Mapping[str, Any] = {}
    event: JobEvent | None = None
    again: float | None = None


def wait(situation: JobSituation, seconds: float | None = None) -> JobStep:
    """Wait for an event, for the job's end at most."""
    left = max(0.0, situation.job.deadline - situation.now)
    return JobStep(again=left if seconds is None else min(left, seconds))


def act(action: JobAction) -> JobStep:
    """Do this."""
    return JobStep(action)


def fail(job: MigrationJob, reason: str, message: str) -> JobStep:
    """End the job; its Reservation is freed, and its notice taken back, by the next steps."""
    status = {"phase": JobPhase.FAILED.value, "reason": reason, "message": message}
    return JobStep(status=status, event=JobEvent(reason, message, is_warning=True), again=0.0)


def succeed(
    situation: JobSituation, message: str, *conditions: JobCondition, event: JobEvent | None = None
) -> JobStep:
    """End the job well."""
    status = {"phase": JobPhase.SUCCEEDED.value, "status": "Complete", "reason": ""}
    status["message"] = message
    changed = with_conditions(situation, *conditions)
    return JobStep(status={**changed, **status}, event=event or JobEvent("Complete", message))


def note(
    situation: JobSituation,
    condition: JobCondition,
    *before: JobCondition,
    event: JobEvent | None = None,
    **fields: Any,
) -> JobStep:
    """Write a condition, which says where the job stands; and others that come before it."""
    status = {
        "status": condition.type,
        "reason": condition.reason,
        "message": condition.message,
        **fields,
    }
    return JobStep(
        status={**with_conditions(situation, *before, condition), **status}, event=event, again=0.0
    )


def with_conditions(situation: JobSituation, *conditions: JobCondition) -> dict[str, Any]:
    """The conditions of the job with these in place of others of their types."""
    if not conditions:
        return {}
    known = {condition.type: condition for condition in situation.job.conditions}
    for condition in conditions:
        known[condition.type] = _since(known.get(condition.type), condition, situation.now)
    return {"conditions": [msgspec.to_builtins(condition) for condition in known.values()]}


def _since(before: JobCondition | None, condition: JobCondition, now: float) -> JobCondition:
    """A condition as written: times that it does not give stay, or are those of the change."""
    is_same = before is not None and before.status == condition.status
    at = before.last_transition_time if before is not None and is_same else rfc3339(now)
    probe = condition.last_probe_time or (before.last_probe_time if before is not None else None)
    return msgspec.structs.replace(condition, last_transition_time=at, last_probe_time=probe)
