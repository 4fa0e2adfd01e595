"""The steps of a PodMigrationJob: the first rule that applies decides. No IO.

Phases: "" or Pending (waits for its arbitration) → Running → Succeeded or Failed, which are the
end. Rules look at objects alone, so a restart goes on where it was:

- The decision to evict is written (condition Eviction, False) before anything is sent; what is
  sent has the pod's UID, so it may be sent twice, and hits no pod of its name that came after it.
- Limits are for what is not decided yet: after the decision nothing but the deadline holds a job.
- Jobs of a gang, and of a wave of a set, evict nobody before all have places. Once one fails, those
  whose pods have not left fail as well.
- A failed job that has its Reservation still has one more step, in which it is freed; another one
  takes back its notice to the pod's owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from koord_model.times import rfc3339

from koord_descheduler.migration.core.job import GROUP_STAYS, JobCondition, PodReference
from koord_descheduler.migration.core.situation import JobSituation
from koord_descheduler.migration.core.step import (
    FORBIDDEN,
    UNSCHEDULABLE,
    JobAction,
    JobEvent,
    JobStep,
    act,
    fail,
    note,
    succeed,
    wait,
)

COMPLETE_SECONDS = 30.0
"""Time in which all jobs of a set are made."""


class JobRule(NamedTuple):
    """A situation by its name, and the step from there."""

    name: str
    applies: Callable[[JobSituation], bool]
    step: Callable[[JobSituation], JobStep]


def _unless_direct(rule: JobRule) -> JobRule:
    return rule._replace(applies=lambda s: not s.is_direct and rule.applies(s))


def next_step(situation: JobSituation) -> JobStep:
    """The step of the first rule that applies."""
    return rule_of(situation).step(situation)


def rule_of(situation: JobSituation) -> JobRule:
    """The first rule that applies."""
    return next(rule for rule in RULES if rule.applies(situation))


# ---- situations


def _failed_with_notice(s: JobSituation) -> bool:
    return s.job.has_failed and s.has_own_notice


def _failed_with_reservation(s: JobSituation) -> bool:
    return s.job.has_failed and s.owns_reservation


def _has_no_pod_reference(s: JobSituation) -> bool:
    return not (s.job.pod.namespace and s.job.pod.name)


def _lost_pod(s: JobSituation) -> bool:
    return s.is_before_eviction and not s.has_own_pod


def _is_limited(s: JobSituation) -> bool:
    return s.is_before_eviction and s.limiter_wait > 0 and not s.bypasses_limiters


def _has_new_pod(s: JobSituation) -> bool:
    return s.has_evicted and s.job.new_pod is not None


def _needs_reservation(s: JobSituation) -> bool:
    return not (s.reservation.is_there or s.job.reservation)


def _is_unlinked(s: JobSituation) -> bool:
    return s.reservation.is_there and not s.job.reservation


def _lost_reservation(s: JobSituation) -> bool:
    return not s.reservation.is_there


def _lacks_order(s: JobSituation) -> bool:
    return s.is_before_eviction and not s.reservation.has_order


def _expired(s: JobSituation) -> bool:
    return s.reservation.has_expired


def _pending(s: JobSituation) -> bool:
    return s.reservation.is_pending


def _newly_unschedulable(s: JobSituation) -> bool:
    known, reason = s.job.condition("ReservationScheduled"), s.reservation.unschedulable
    is_new = known is None or known.message != reason
    return _pending(s) and reason is not None and is_new


def _not_scheduled(s: JobSituation) -> bool:
    return not (s.reservation.is_scheduled or s.reservation.is_used)


def _on_same_node(s: JobSituation) -> bool:
    node = s.pod.node if s.pod is not None and not s.is_for_pending_pod else ""
    return s.is_before_eviction and bool(node) and s.reservation.node == node


def _newly_scheduled(s: JobSituation) -> bool:
    return not s.job.node and bool(s.reservation.node)


def _pending_pod_has_node(s: JobSituation) -> bool:
    return s.is_for_pending_pod and s.pod is not None and bool(s.pod.node)


def _taken_by_another(s: JobSituation) -> bool:
    return s.reservation.is_used if s.is_before_eviction else s.has_evicted and s.has_stranger


def _group_failed(s: JobSituation) -> bool:
    return s.may_stop and bool(s.group.failed)


def _group_is_late(s: JobSituation) -> bool:
    return s.may_stop and s.group.missing > 0 and s.now - s.job.created >= COMPLETE_SECONDS


def _group_comes(s: JobSituation) -> bool:
    return s.is_before_eviction and s.group.missing > 0


def _earlier_wave_stays(s: JobSituation) -> bool:
    return s.is_before_eviction and bool(s.group.earlier)


def _group_waits(s: JobSituation) -> bool:
    return s.is_before_eviction and bool(s.group.without_place)


def _pod_is_gone(s: JobSituation) -> bool:
    return s.is_evicting and not s.has_own_pod


# ---- steps


def _time_out(s: JobSituation) -> JobStep:
    scheduled = s.job.condition("ReservationScheduled")
    if scheduled is not None and scheduled.reason == UNSCHEDULABLE and scheduled.status == "False":
        return fail(s.job, UNSCHEDULABLE, scheduled.message)
    return fail(s.job, "Timeout", "Abort job caused by timeout")


def _lose_pod(s: JobSituation) -> JobStep:
    return fail(s.job, "MissingPod", f'Abort job caused by missing Pod "{s.job.pod.key}"')


def _stop_with_group(s: JobSituation) -> JobStep:
    kind = GROUP_STAYS[s.job.move_set is not None]
    return fail(s.job, FORBIDDEN, f"{kind}{s.group.failed}")


def _miss_group(s: JobSituation) -> JobStep:
    why = f"{s.group.missing} of its jobs are not there"
    return fail(s.job, FORBIDDEN, f"{GROUP_STAYS[True]}{why}")


def _lose_reservation(s: JobSituation) -> JobStep:
    message = f'Abort job caused by missing Reservation "/{s.job.reservation}"'
    return fail(s.job, "MissingReservation", message)


def _report_unschedulable(s: JobSituation) -> JobStep:
    message = s.reservation.unschedulable or ""
    condition = JobCondition("ReservationScheduled", "False", UNSCHEDULABLE, message)
    event = JobEvent(UNSCHEDULABLE, message, is_warning=True)
    return note(s, condition, _CREATED, event=event)


def _be_unschedulable(s: JobSituation) -> JobStep:
    return fail(s.job, UNSCHEDULABLE, s.reservation.unschedulable or "the Reservation has no node")


def _refuse_same_node(s: JobSituation) -> JobStep:
    name = s.reservation.name
    message = f'Scheduler assignes the Reservation "{name}" on the same node as the Pod'
    return fail(s.job, FORBIDDEN, message)


def _report_scheduled(s: JobSituation) -> JobStep:
    name, node = s.reservation.name, s.reservation.node
    event = JobEvent("ReservationScheduled", f'Assigned Reservation "{name}" to node "{node}"')
    condition = JobCondition("ReservationScheduled", "True")
    return note(s, condition, _CREATED, event=event, nodeName=node)


def _report_pod_scheduled(s: JobSituation) -> JobStep:
    message = f'Pod "{s.job.pod.key}" is scheduled with Reservation "{s.reservation.name}"'
    return succeed(s, message, JobCondition("PodScheduled", "True"))


def _decide_to_evict(s: JobSituation) -> JobStep:
    node = s.pod.node if s.pod is not None else ""
    message = (
        f'Pod "{s.job.pod.key}" evicted from node "{node}" by the reason "{s.job.eviction_reason}"'
    )
    condition = JobCondition("Eviction", "False", "Evicting", message, rfc3339(s.now))
    return note(s, condition)


def _complete_eviction(s: JobSituation) -> JobStep:
    message = f'Pod "{s.job.pod.key}" has been evicted'
    condition = JobCondition("Eviction", "True", "EvictComplete", message)
    return note(s, condition, event=JobEvent("EvictComplete", message))


def _succeed_directly(s: JobSituation) -> JobStep:
    return succeed(s, f'Pod "{s.job.pod.key}" has been evicted')


def _wait_for_new_pod(s: JobSituation) -> JobStep:
    known = s.job.condition("PodBoundReservation")
    if known is not None:
        return wait(s)
    reason = "WaitForPodBindReservation"
    condition = JobCondition("PodBoundReservation", "False", reason)
    return note(s, condition, event=JobEvent(reason, "Waiting for Pod bind Reservation"))


def _report_new_pod(s: JobSituation) -> JobStep:
    pod = s.successor or PodReference()
    reference = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    event = JobEvent("PodBoundReservation", f'Reservation bound by pod "{pod.key}"')
    return note(s, JobCondition("ReservationBound", "True"), event=event, podRef=reference)


def _wait_until_ready(s: JobSituation) -> JobStep:
    known = s.job.condition("BoundPodReady")
    if known is not None:
        return wait(s)
    reason = "WaitForBoundPodReady"
    pod = s.job.new_pod
    message = f"Waiting for Bound Pod {pod.key if pod is not None else ''} Ready"
    condition = JobCondition("BoundPodReady", "False", reason)
    return note(s, condition, event=JobEvent(reason, message))


def _complete(s: JobSituation) -> JobStep:
    pod = s.job.new_pod.key if s.job.new_pod is not None else ""
    message = f'Bind Pod "{pod}" in Reservation "{s.job.reservation}"'
    conditions = (
        JobCondition("BoundPodReady", "True"),
        JobCondition("PodBoundReservation", "True", message=message),
    )
    return succeed(s, message, *conditions)


_CREATED = JobCondition("ReservationCreated", "True")
_BOUND_BY_ANOTHER = "Reservation is already bound by another Pod"


_PLACE_RULES = tuple(
    map(
        _unless_direct,
        (
            JobRule("reserve", _needs_reservation, lambda s: act(JobAction.RESERVE)),
            JobRule("link", _is_unlinked, lambda s: act(JobAction.LINK)),
            JobRule("missing Reservation", _lost_reservation, _lose_reservation),
            JobRule("order", _lacks_order, lambda s: act(JobAction.SET_ORDER)),
            JobRule(
                "expired",
                _expired,
                lambda s: fail(s.job, "ReservationExpired", "Reservation expired"),
            ),
            JobRule("newly unschedulable", _newly_unschedulable, _report_unschedulable),
            JobRule("pending", _pending, wait),
            JobRule("unscheduled", _not_scheduled, _be_unschedulable),
            JobRule("same node", _on_same_node, _refuse_same_node),
            JobRule("scheduled", _newly_scheduled, _report_scheduled),
            JobRule("pending pod scheduled", _pending_pod_has_node, _report_pod_scheduled),
            JobRule("pending pod", lambda s: s.is_for_pending_pod, wait),
            JobRule(
                "taken",
                _taken_by_another,
                lambda s: fail(s.job, FORBIDDEN, _BOUND_BY_ANOTHER),
            ),
            JobRule("bound", lambda s: s.has_evicted and s.successor is not None, _report_new_pod),
            JobRule("not bound", lambda s: s.has_evicted, _wait_for_new_pod),
            JobRule("group waits", _group_waits, wait),
        ),
    )
)
"""The place comes first, unless nothing is reserved."""

RULES: tuple[JobRule, ...] = (
    JobRule("notice", _failed_with_notice, lambda s: act(JobAction.TAKE_BACK)),
    JobRule("free", _failed_with_reservation, lambda s: act(JobAction.FREE)),
    JobRule("over", lambda s: s.job.is_over, lambda s: JobStep()),
    JobRule("paused", lambda s: s.job.is_paused, lambda s: JobStep()),
    JobRule("timeout", lambda s: s.now >= s.job.deadline, _time_out),
    JobRule(
        "invalid podRef",
        _has_no_pod_reference,
        lambda s: fail(s.job, "InvalidPodRef", "Abort job caused by invalid PodRef"),
    ),
    JobRule("missing pod", _lost_pod, _lose_pod),
    JobRule("group failed", _group_failed, _stop_with_group),
    JobRule("group missing", _group_is_late, _miss_group),
    JobRule(
        "group comes",
        _group_comes,
        lambda s: wait(s, s.job.created + COMPLETE_SECONDS - s.now),
    ),
    JobRule(
        "waiting",
        lambda s: s.job.is_waiting,
        lambda s: wait(s)._replace(action=JobAction.ARBITRATE),
    ),
    # Running, without what became of the eviction.
    JobRule("pod gone", _pod_is_gone, _complete_eviction),
    JobRule("evicted directly", lambda s: s.has_evicted and s.is_direct, _succeed_directly),
    JobRule(
        "ready", lambda s: _has_new_pod(s) and (s.new_pod is None or s.new_pod.is_ready), _complete
    ),
    JobRule("not ready", _has_new_pod, _wait_until_ready),
    JobRule("ending", lambda s: s.is_evicting and s.is_ending, wait),
    JobRule("earlier wave", _earlier_wave_stays, wait),
    JobRule("limited", _is_limited, lambda s: wait(s, s.limiter_wait)),
    *_PLACE_RULES,
    # There is a place, or none is needed.
    JobRule("decide", lambda s: s.is_before_eviction, _decide_to_evict),
    JobRule("later", lambda s: s.eviction_wait > 0, lambda s: wait(s, s.eviction_wait)),
    JobRule("evict", lambda s: True, lambda s: act(JobAction.EVICT)),
)
