"""All gangs, as plain data for ``koordctl gangs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.gangs.gangs import Gang, count_by_gang
from koord_scheduler.gangs.policy_words import policy_words
from koord_scheduler.gangs.readiness import missing_members


def gangs_document(scheduler: Scheduler) -> Mapping[str, Any]:
    """Each gang with how many pods it needs and has, and why it waits."""
    gangs = scheduler.gangs.by_key
    return {"gangs": [_row(scheduler, gang) for _, gang in sorted(gangs.items())]}


def _row(scheduler: Scheduler, gang: Gang) -> dict[str, Any]:
    waiting = gang.waiting()
    spec, group = gang.spec, gang.pod_group
    return {
        "name": gang.key,
        "group": gang.group_id,
        "min": spec.min_member if spec is not None else 0,
        "members": len(gang.members),
        "waiting": len(waiting),
        "bound": len(gang.bound),
        "policy": policy_words(gang, scheduler.gangs),
        "phase": group.status.phase if group is not None else "",
        "why": _why(scheduler, gang, waiting) if waiting else "",
    }


def _why(scheduler: Scheduler, gang: Gang, waiting: list[str]) -> str:
    """Return what its group lacks, or the last report on a pod of it; nothing is tried."""
    queued = [pod for key in waiting if (pod := scheduler.queue.pods.get(key)) is not None]
    missing = _missing(scheduler, gang.group_id) if gang.unit else ""
    return missing or next(filter(None, map(_last_report, queued)), "")


def _missing(scheduler: Scheduler, group_id: str) -> str:
    gangs = scheduler.gangs
    members = (
        key for _, one in gangs.of_group(group_id) if one is not None for key in one.waiting()
    )
    ready = count_by_gang(gangs, (key for key in members if key in scheduler.queue.pods))
    return missing_members(gangs, group_id, ready)


def _last_report(pod: QueuedPod) -> str:
    return pod.reported or pod.waiting.condition
