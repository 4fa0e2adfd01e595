"""Conditions of Kubernetes' PodGroups, as kube-scheduler writes them. No IO.

CompositePodGroups have none: kube-scheduler 1.37 writes none either.
"""

from __future__ import annotations

import msgspec
from koord_kube.protocol.request import Request

from koord_scheduler.gangs.gangs import Gang, Gangs
from koord_scheduler.gangs.scheduling_group import SUFFIX, Condition, SchedulingGroup

SCHEDULED = "PodGroupInitiallyScheduled"
_OLD_SCHEDULED = "PodGroupScheduled"
DISRUPTED = "DisruptionTarget"
_PREEMPTED = "preempting to accommodate a higher priority pod"


def conditions_patch(gangs: Gangs, gang: Gang, now: str) -> Request | None:
    """Write what has changed of a PodGroup of Kubernetes; ``None``: nothing.

    ``now`` is a time of the API.
    """
    group = gangs.hierarchy.groups.get(gang.key)
    if group is None:
        return None
    found = [_scheduled(gangs, gang, group), _disrupted(gang, group)]
    before = group.status.conditions or []
    after = before
    for one in filter(None, found):
        after = _with_condition(after, one, now)
    return None if after == before else _patch(group, after)


def _scheduled(gangs: Gangs, gang: Gang, group: SchedulingGroup) -> Condition | None:
    """Once it was true it stays so."""
    is_old = group.resource.version == "v1alpha2"
    kind, generation = _OLD_SCHEDULED if is_old else SCHEDULED, group.generation
    if (gang.assumed or gang.bound) and gang.key not in gangs.unsatisfied(gang.group_id):
        return Condition(kind, "True", "Scheduled", observed_generation=generation)
    was_true = any(
        one.type == kind and one.status == "True" for one in group.status.conditions or ()
    )
    if was_true or not gang.members:
        return None
    if gang.problem:
        return Condition(kind, "False", "SchedulerError", gang.problem, generation)
    if not gang.refusal:
        return None
    return Condition(kind, "False", "Unschedulable", gang.refusal, generation)


def _disrupted(gang: Gang, group: SchedulingGroup) -> Condition | None:
    """It loses all its pods."""
    if gang.spec is None or not gang.spec.disrupted_with:
        return None
    if not any(member.is_preempted for member in gang.members.values()):
        return None
    reason, generation = "PreemptionByScheduler", group.generation
    return Condition(DISRUPTED, "True", reason, _PREEMPTED, generation)


def _with_condition(before: list[Condition], condition: Condition, now: str) -> list[Condition]:
    """As Kubernetes' ``SetStatusCondition``: the time is that of the last change of the status."""
    known = next((other for other in before if other.type == condition.type), None)
    changed = known is None or known.status != condition.status
    time = now if changed or known is None else known.last_transition_time
    new = msgspec.structs.replace(condition, last_transition_time=time or now)
    return [new if other is known else other for other in before] if known else [*before, new]


def _patch(group: SchedulingGroup, conditions: list[Condition]) -> Request:
    """A merge patch of the version that was looked at: lists are replaced as they are."""
    namespace, _, name = group.key.removesuffix(SUFFIX).partition("/")
    metadata = {"uid": group.uid, "resourceVersion": group.resource_version}
    status = {"conditions": msgspec.to_builtins(conditions)}
    body = {"metadata": metadata, "status": status}
    return Request("PATCH", group.resource, name, namespace, "status", body=body)
