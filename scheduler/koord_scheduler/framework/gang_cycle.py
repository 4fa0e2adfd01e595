"""Decisions on gang groups: each is placed whole, or waits whole. No IO."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter

from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import Diagnosis
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.gang_hold import HOLD_AFTER_SECONDS, GangHold
from koord_scheduler.framework.gang_host import GangHost, GangReport
from koord_scheduler.framework.gang_planner import (
    EVERYWHERE,
    GangCandidate,
    GangPlanner,
    GangRequest,
    pod_slots,
)
from koord_scheduler.framework.gang_preemption import (
    PreemptingPlacer,
    preemption_plans,
    waits_for_victims,
)
from koord_scheduler.framework.gang_trial import MemberPlacer, TrialResult, try_gang
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.framework.parked_columns import ParkedNeeds
from koord_scheduler.framework.queue.scheduling_queue import (
    ClassKey,
    ClassQueue,
    GangAttempts,
    QueuedPod,
)
from koord_scheduler.gangs.gangs import count_by_gang
from koord_scheduler.gangs.member import Release
from koord_scheduler.gangs.readiness import has_enough_pods, ignored, missing_members
from koord_scheduler.state.arrays import Amounts, Rows

REPORT_AFTER_SECONDS = 5.0
"""Owners hear that a gang is incomplete once no pod of it came for so long."""


class GangCycle:
    """Tries gang groups, and hands out the placements of those that fit, one after the other.

    ``planner`` says where they may be tried; without one, everywhere.
    """

    def __init__(self, host: GangHost) -> None:
        self._host = host
        self._decided: deque[Placement | PreemptionPlan] = deque()
        self._hold = GangHold(host.nodes, host.nominations, host.scores)
        self.planner: GangPlanner | None = None

    def next_decided(self) -> Placement | PreemptionPlan | None:
        """The next placement of a gang that fits, or who has to make room for one."""
        return self._decided.popleft() if self._decided else None

    def clear(self) -> None:
        """Forget what was not handed out."""
        self._decided.clear()
        self._hold.let_go()

    def decide(self, head: QueuedPod, now: float) -> Refusal | None:
        """Try the group of a pod whose turn it is.

        ``None``: it fits, and its placements are next; or nobody is to hear of it.
        """
        host, group_id = self._host, head.gang
        queue = host.queue.class_of(head)
        if not has_enough_pods(host.gangs, group_id) and _is_fresh(queue, now):
            host.queue.park(queue.key, now)
            return None
        pods = sorted(queue.pods(), key=attrgetter("turn"))
        obstacle = self._missing(group_id, pods) or host.obstacle(pods)
        if obstacle:
            queue.gang_attempts.position = -1
            return self._refuse(queue, head, obstacle, now)
        if reason := self._not_admitted(group_id, pods):
            if self._hold.is_for(group_id):
                self._hold.let_go()
            self._back_off(queue.gang_attempts, group_id, pods, now, holds=False)
            return self._refuse(queue, head, reason, now)
        not_admitted: list[str] = []

        def explain(pod: QueuedPod) -> str:
            not_admitted.extend([pod.key] if host.not_admitted(pod) else [])
            return self._why_not(pod)

        with self._without_nominations(pods) as nominations:
            result = self._try(host, group_id, self._required_first(group_id, pods), explain)
            if result.has_room:
                nominations.clear()  # those who did not fit wait as any other pod
                self._release(group_id, result.placements)
                return None
        last = result.failed or head
        remedy = None if not_admitted else host.remedy(last)
        preempts = remedy is None and host.gangs.preempts(group_id)
        if preempts and self._preempt(queue, pods, now):
            return None
        self._back_off(queue.gang_attempts, group_id, pods, now, holds=not not_admitted)
        refusal = self._refuse(queue, last, self._failure(group_id, result), now)
        return replace(refusal, remedy=remedy)

    def report(self, pod: QueuedPod) -> GangReport:
        """Report what the group of a waiting pod lacks now; nothing is changed by that."""
        host, found = self._host, list[Diagnosis]()
        pods = sorted(host.queue.waiting_with(pod.class_key), key=attrgetter("turn")) or [pod]
        needed = sum(host.gangs.needed(pod.gang).values())
        missing = self._missing(pod.gang, pods) or host.obstacle(pods)
        missing = missing or self._not_admitted(pod.gang, pods)
        if missing:
            return GangReport(pod.gang, len(pods), needed, missing)

        def explain(member: QueuedPod) -> str:
            found.append(host.diagnosis(member))
            return ""

        position = host.nodes.journal.position
        with self._without_nominations(pods):
            ordered = self._required_first(pod.gang, pods)
            result = self._try(host, pod.gang, ordered, explain)
            for placement in reversed(result.placements):
                host.take_back(placement.pod)
        self._keep_positions(position)
        failed = result.failed.key if result.failed is not None else ""
        last = found[-1] if found else None
        return GangReport(pod.gang, len(pods), needed, result.why, result.fitted, failed, last)

    def may_fit(self, queue: ClassQueue, now: float) -> bool:
        """True if a parked group should be tried again, or is due for another report."""
        attempts, group_id = queue.gang_attempts, queue.key.gang
        if now < attempts.retry_at:
            return False
        pods = sorted(queue.pods(), key=attrgetter("turn"))
        if not pods:
            return False
        if self._missing(group_id, pods):
            return bool(queue.entered) and not _is_fresh(queue, now)
        is_unchanged = attempts.position == self._host.nodes.journal.position
        if is_unchanged and attempts.objects == self._host.objects_state(pods):
            return False
        if self._host.obstacle(pods) or self._not_admitted(group_id, pods):
            return False
        with self._without_nominations(pods):
            return self._has_slots(group_id, pods)

    def needs(self, queue: ClassQueue, now: float) -> ParkedNeeds:
        """Return the needs of a parked group: of each resource as much as its largest pod's.

        Where that cannot be said, it is looked at once it may be tried again.
        """
        attempts, group_id, host = queue.gang_attempts, queue.key.gang, self._host
        pods = sorted(queue.pods(), key=attrgetter("turn"))
        if self._missing(group_id, pods):
            reported_at = (
                queue.entered[-1].added + REPORT_AFTER_SECONDS if queue.entered else math.inf
            )
            return ParkedNeeds(is_sure=True, due=reported_at)
        if attempts.position < 0:
            return ParkedNeeds(is_sure=True, due=attempts.retry_at)
        most: dict[str, float] = {}
        for pod in self._required(group_id, pods):
            for name, amount in host.least_room(pod):
                most[name] = max(most.get(name, 0.0), amount)
        return ParkedNeeds(tuple(most.items()), due=attempts.retry_at)

    def _missing(self, group_id: str, pods: Sequence[QueuedPod]) -> str:
        gangs = self._host.gangs
        return missing_members(gangs, group_id, count_by_gang(gangs, (pod.key for pod in pods)))

    def _not_admitted(self, group_id: str, pods: Sequence[QueuedPod]) -> str:
        """Return why the pods that have to start together may not, whatever nodes there are."""
        required = self._required(group_id, pods)
        reason = self._host.not_admitted(*required)
        return (
            f"gang group {group_id} needs nodes for {len(required)} pods at once: {reason}"
            if reason
            else ""
        )

    def _has_slots(self, group_id: str, pods: Sequence[QueuedPod]) -> bool:
        """True if there may be slots for as many pods as have to start together."""
        host = self._host
        if host.nodes.holds_room() or len({pod.scores_key for pod in pods}) > 1:
            return True
        rows = host.fitting_rows(pods[0])
        return float(self._slots(pods[0], rows).sum()) >= sum(host.gangs.needed(group_id).values())

    def _slots(self, pod: QueuedPod, rows: Rows) -> Amounts:
        return pod_slots(self._host.nodes, pod.waiting.usage, rows)

    def _why_not(self, pod: QueuedPod) -> str:
        return fit_error_message(self._host.diagnosis(pod))

    def _try(
        self,
        placer: MemberPlacer,
        group_id: str,
        pods: Sequence[QueuedPod],
        explain: Callable[[QueuedPod], str],
        among: Iterable[GangCandidate] | None = None,
    ) -> TrialResult:
        """In all candidates, in their order; the last one says why it does not fit."""
        found = self._candidates(group_id, pods) if among is None else among
        if isinstance(found, str):
            return TrialResult((), why=found)
        gangs, result = self._host.gangs, TrialResult((), why="it may be tried nowhere")
        for candidate in found:
            result = try_gang(placer, gangs, group_id, pods, candidate, explain)
            if result.has_room:
                break
        return result

    def _candidates(
        self, group_id: str, pods: Sequence[QueuedPod]
    ) -> Iterable[GangCandidate] | str:
        if self.planner is None:
            return (EVERYWHERE,)
        return self.planner.candidates(self._request(group_id, pods))

    def _rows_to_free(self, group_id: str, pods: Sequence[QueuedPod]) -> Rows | None:
        if self.planner is None:
            return None
        return self.planner.rows_to_free(self._request(group_id, pods))

    def domains(self, pod: QueuedPod) -> Sequence[Rows] | None:
        """Return parts of the cluster of which a pod's whole group has to be in one.

        ``None``: it may be anywhere.
        """
        if self.planner is None:
            return None
        pods = sorted(self._host.queue.waiting_with(pod.class_key), key=attrgetter("turn")) or [pod]
        return self.planner.domains(self._request(pod.gang, pods))

    def _request(self, group_id: str, pods: Sequence[QueuedPod]) -> GangRequest:
        host = self._host
        gangs = [gang for _, gang in host.gangs.of_group(group_id) if gang is not None]
        required = self._required(group_id, pods)
        return GangRequest(gangs, pods, required, host.nodes, host.fitting_rows, self._slots)

    def _release(self, group_id: str, placements: Sequence[Placement]) -> None:
        """From now on its pods are bound, whatever becomes of single ones."""
        if self._hold.is_for(group_id):
            self._hold.let_go()
        release = Release(group_id, len(placements))
        self._host.gangs.begin_release(release)
        for placement in placements:
            self._host.confirm(placement.pod)
            self._decided.append(
                placement._replace(release=release) if len(placements) > 1 else placement
            )
        self._host.regroup(placements[0].pod)

    def _preempt(self, queue: ClassQueue, pods: Sequence[QueuedPod], now: float) -> bool:
        """Let others make room for a group that does not fit, if all of it fits then."""
        host, attempts, group_id = self._host, queue.gang_attempts, queue.key.gang
        if waits_for_victims(host.placed, attempts.victims, attempts.preempted_at, now):
            return False
        placer, required = PreemptingPlacer(host), self._required(group_id, pods)
        with placer.restored(), self._without_nominations(pods):
            rows = self._rows_to_free(group_id, pods)
            among = None if rows is None else [GangCandidate(rows)]
            result = self._try(placer, group_id, required, lambda _: "", among)
            for placement in reversed(result.placements):
                host.take_back(placement.pod)
        if not result.has_room:
            return False
        host.queue.park(queue.key, now)
        plans = preemption_plans(host, result.placements, placer.preemptions)
        self._decided += plans
        victims = (victim.key for plan in plans for victim in plan.preemption.victims)
        attempts.victims, attempts.preempted_at = tuple(victims), now
        attempts.retry_at = now + host.queue.pause(0)
        self._note_tried(attempts, pods)
        return True

    def _back_off(
        self,
        attempts: GangAttempts,
        group_id: str,
        pods: Sequence[QueuedPod],
        now: float,
        *,
        holds: bool,
    ) -> None:
        """The group waits for a while; at once it is tried again if room is held for it.

        None is held, and changes of nodes are not waited for, unless it ``holds``.
        """
        host = self._host
        if not attempts.failures:
            attempts.since = now
        required = self._required(group_id, pods)
        is_old = now - attempts.since >= HOLD_AFTER_SECONDS
        is_held = (
            holds
            and is_old
            and bool(required)
            and self._hold.hold(
                group_id,
                required,
                now,
                host.gangs.wait_seconds(group_id),
                partial(self._rows_to_free, group_id, pods),
            )
        )
        attempts.retry_at = now + host.queue.pause(0 if is_held else attempts.failures)
        attempts.failures += 1
        if holds:
            self._note_tried(attempts, pods)
        else:
            attempts.position = -1

    def _note_tried(self, attempts: GangAttempts, pods: Sequence[QueuedPod]) -> None:
        """The group is not looked at again before something changes."""
        attempts.position = self._host.nodes.journal.position
        attempts.objects = self._host.objects_state(pods)

    def _keep_positions(self, position: int) -> None:
        """Nodes are as they were at a position of the journal: a look at a gang is no change."""
        for queue in self._host.queue.classes():
            if queue.gang_attempts.position == position:
                queue.gang_attempts.position = self._host.nodes.journal.position

    def _required_first(self, group_id: str, pods: Sequence[QueuedPod]) -> list[QueuedPod]:
        """Pods beyond the minimum of one gang come after what the others of its group need."""
        required = self._required(group_id, pods)
        keys = {one.key for one in required}
        return [*required, *(pod for pod in pods if pod.key not in keys)]

    def _required(self, group_id: str, pods: Sequence[QueuedPod]) -> list[QueuedPod]:
        """As many pods of each gang as have to start together, the first ones."""
        left, found = self._host.gangs.needed(group_id), list[QueuedPod]()
        for pod in pods:
            gang = self._host.gangs.gang_of(pod.key)
            if gang is not None and left.get(gang.key, 0) > 0:
                left[gang.key] -= 1
                found.append(pod)
        return found

    def expire(self, now: float) -> None:
        """Let go of room that was held in vain; its group grows old anew."""
        group_id = self._hold.expire(now)
        if group_id and (queue := self._host.queue.class_with(ClassKey("", None, gang=group_id))):
            queue.gang_attempts.since = now

    def _refuse(self, queue: ClassQueue, pod: QueuedPod, message: str, now: float) -> Refusal:
        gangs, group_id = self._host.gangs, queue.key.gang
        self._host.queue.park(queue.key, now)
        message += ignored(gangs, group_id)
        if has_enough_pods(gangs, group_id):
            gangs.refuse(group_id, message, now)
        return Refusal(pod, tuple(queue.take_unreported(now)), gang=message)

    def _failure(self, group_id: str, result: TrialResult) -> str:
        """Describe why a group that has all its pods does not fit."""
        if result.failed is None:
            return f"gang group {group_id}: {result.why}"
        needed = sum(self._host.gangs.needed(group_id).values())
        return (
            f"gang group {group_id} needs nodes for {needed} pods at once, {result.fitted} fit; "
            f"{result.failed.key} does not: {result.why}"
        )

    @contextmanager
    def _without_nominations(self, pods: Iterable[QueuedPod]) -> Iterator[list[Nomination]]:
        """Room that is kept for the pods of a group is there for all of them.

        What is left in the list at the end is kept again.
        """
        nominations = self._host.nominations
        kept = [one for pod in pods if (one := nominations.get(pod.key)) is not None]
        for one in kept:
            nominations.remove(one.key)
        try:
            yield kept
        finally:
            for one in kept:
                nominations.set(one)


def _is_fresh(queue: ClassQueue, now: float) -> bool:
    """True if a pod came a short while ago, so that others may be about to come."""
    return bool(queue.entered) and now - queue.entered[-1].added < REPORT_AFTER_SECONDS
