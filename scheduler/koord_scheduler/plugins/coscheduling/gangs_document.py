"""Gangs as plain data, for ``koordctl gangs`` and the web page."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.gangs.gangs import Gang, count_by_gang
from koord_scheduler.gangs.policy_words import policy_words
from koord_scheduler.gangs.readiness import missing_members

_SHOWN = 8
_REASON = 1000
"""Letters."""


def gangs_document(scheduler: Scheduler) -> Mapping[str, Any]:
    """Each gang with how many pods it needs and has, and why it waits."""
    gangs = scheduler.gangs.by_key
    return {"gangs": [_row(scheduler, gang) for _, gang in sorted(gangs.items())]}


def gangs_overview(scheduler: Scheduler) -> Mapping[str, Any]:
    """Count gangs and those that wait; of these the ones with the most pods that do."""
    gangs = scheduler.gangs.by_key
    sizes = [
        (len(gang.members) - len(gang.assumed | gang.bound.keys()), gang) for gang in gangs.values()
    ]
    waiting = [(size, gang) for size, gang in sizes if size > 0]
    largest = heapq.nlargest(_SHOWN, waiting, key=itemgetter(0))
    rows = [_row(scheduler, gang) for _, gang in largest]
    return {
        "gangs": len(gangs),
        "waiting": len(waiting),
        "largest": [{**row, "why": row["why"][:_REASON]} for row in rows],
    }


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
