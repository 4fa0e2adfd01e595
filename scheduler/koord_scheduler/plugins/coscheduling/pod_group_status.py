"""Status of a PodGroup, as Koordinator's PodGroupController has it. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_model.times import from_rfc3339
from msgspec.structs import replace

from koord_scheduler.gangs.pod_group import (
    FAILED,
    FINISHED,
    PENDING,
    PRE_SCHEDULING,
    RUNNING,
    SCHEDULED,
    SCHEDULING,
    PodGroupStatus,
)

STALE_SECONDS = 48 * 3600.0
"""A group that began so late after it was made, and runs nowhere, is not looked at any more."""


class MemberPhases(NamedTuple):
    """Number of a group's pods, of those with a node, and by phase.

    ``occupied_by`` is what its first pod belongs to.
    """

    total: int
    bound: int
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    occupied_by: str = ""


def next_status(
    status: PodGroupStatus, minimum: int, pods: MemberPhases, now: str
) -> PodGroupStatus:
    """One step of a group; ``now`` is a time of the API."""
    if not status.phase:
        return replace(status, phase=PENDING)
    if status.phase == PENDING:
        if not 0 < minimum <= pods.total:
            return status
        occupied_by = pods.occupied_by or status.occupied_by
        return replace(status, phase=PRE_SCHEDULING, occupied_by=occupied_by)
    if not pods.total:
        return replace(status, phase=PENDING)
    phase = _phase(minimum, pods)
    began = status.schedule_start_time or (now if _waits(minimum, pods) else None)
    return replace(
        status,
        phase=phase,
        scheduled=pods.bound,
        running=pods.running,
        succeeded=pods.succeeded,
        failed=pods.failed,
        schedule_start_time=began,
    )


def _waits(minimum: int, pods: MemberPhases) -> bool:
    """True if a group still waits for nodes."""
    return pods.bound < minimum


def is_settled(status: PodGroupStatus, minimum: int, created: float) -> bool:
    """True if nothing is to be said of a group any more."""
    if status.phase in (FINISHED, FAILED):
        return True
    if status.scheduled != minimum or status.running or not status.schedule_start_time:
        return False
    return from_rfc3339(status.schedule_start_time) - created > STALE_SECONDS


def _phase(minimum: int, pods: MemberPhases) -> str:
    if pods.succeeded >= minimum:
        return FINISHED
    if pods.failed and pods.failed + pods.running + pods.succeeded >= minimum:
        return FAILED
    if _waits(minimum, pods):
        return SCHEDULING
    return RUNNING if pods.succeeded + pods.running >= minimum else SCHEDULED
