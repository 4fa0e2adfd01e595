"""What is decided about gang groups: each is placed whole, or waits whole. No IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from koord_scheduler.columns.arrays import Amounts, Rows
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.gang_planner import (
    EVERYWHERE,
    GangCandidate,
    GangPlanner,
    GangRequest,
    pod_slots,
)
from koord_scheduler.framework.gang_trial import MemberPlacer, TrialResult, try_gang
from koord_scheduler.framework.nominations import Nominations
from koord_scheduler.gang.gangs import Gangs, count_by_gang
from koord_scheduler.gang.member import Release
from koord_scheduler.gang.readiness import has_enough_pods, missing_members
from koord_scheduler.queue.scheduling_queue import (
    ClassQueue,
    GangAttempts,
    QueuedPod,
    SchedulingQueue,
)

TOLD_AFTER_SECONDS = 5.0
"""Owners hear that a gang is incomplete once no pod of it came for so long."""


class GangHost(MemberPlacer, Protocol):
    """The scheduler, as far as gangs are concerned."""

    nodes: NodeColumns
    queue: SchedulingQueue
    nominations: Nominations

    @property
    def gangs(self) -> Gangs:
        """All gangs."""
        ...

    def confirm(self, pod: QueuedPod) -> None:
        """A pod that was placed is to be bound."""
        ...

    def fitting_rows(self, pod: QueuedPod) -> Rows:
        """The rows where a pod fits now."""
        ...

    def why_not(self, pod: QueuedPod) -> str:
        """Why a pod fits nowhere, in a line."""
        ...

    def obstacle(self, pods: Iterable[QueuedPod]) -> str:
        """Why pods cannot be placed together at all; "" if nothing speaks against it."""
        ...


class GangCycle:
    """Tries gang groups, and hands out the placements of those that fit, one after the other.

    ``planner`` says where they may be tried; without one, everywhere.
    """

    def __init__(self, host: GangHost) -> None:
        self._host = host
        self._released: deque[Placement] = deque()
        self.planner: GangPlanner | None = None

    def next_released(self) -> Placement | None:
        """The next placement of a gang that fits."""
        return self._released.popleft() if self._released else None

    def clear(self) -> None:
        """Forget what was not handed out."""
        self._released.clear()

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
        with self._without_nominations(pods):
            result = self._try(group_id, pods)
            if result.has_room:
                self._release(group_id, result.placements)
                return None
        self._back_off(queue.gang_attempts, now)
        return self._refuse(queue, result.failed or head, self._failure(group_id, result), now)

    def may_fit(self, queue: ClassQueue, now: float) -> bool:
        """Whether a parked group should be tried again, or its owners told what it lacks."""
        attempts, group_id = queue.gang_attempts, queue.key.gang
        pods = list(queue.pods())
        if now < attempts.retry_at or not pods:
            return False
        if self._missing(group_id, pods):
            return bool(queue.entered) and not _is_fresh(queue, now)
        if attempts.position == self._host.nodes.journal.position:
            return False
        with self._without_nominations(pods):
            return self._has_slots(group_id, pods)

    def _missing(self, group_id: str, pods: Sequence[QueuedPod]) -> str:
        gangs = self._host.gangs
        return missing_members(gangs, group_id, count_by_gang(gangs, (one.key for one in pods)))

    def _has_slots(self, group_id: str, pods: Sequence[QueuedPod]) -> bool:
        """Whether there may be room for as many pods as have to start together."""
        host = self._host
        if len(host.nodes.reservations) or len({one.scores_key for one in pods}) > 1:
            return True
        rows = host.fitting_rows(pods[0])
        return float(self._slots(pods[0], rows).sum()) >= host.gangs.needed(group_id)

    def _slots(self, pod: QueuedPod, rows: Rows) -> Amounts:
        return pod_slots(self._host.nodes, pod.waiting.usage, rows)

    def _try(self, group_id: str, pods: Sequence[QueuedPod]) -> TrialResult:
        """In all candidates, in their order; the last one says why it does not fit."""
        found = self._candidates(group_id, pods)
        if isinstance(found, str):
            return TrialResult((), why=found)
        host, result = self._host, TrialResult((), why="it may be tried nowhere")
        for candidate in found:
            result = try_gang(host, host.gangs, group_id, pods, candidate, host.why_not)
            if result.has_room:
                break
        return result

    def _candidates(
        self, group_id: str, pods: Sequence[QueuedPod]
    ) -> Iterable[GangCandidate] | str:
        if self.planner is None:
            return (EVERYWHERE,)
        host = self._host
        gangs = [gang for _, gang in host.gangs.of_group(group_id) if gang is not None]
        request = GangRequest(gangs, pods, host.nodes, host.fitting_rows, self._slots)
        return self.planner.candidates(request)

    def _release(self, group_id: str, placements: Sequence[Placement]) -> None:
        """From now on its pods are bound, whatever becomes of single ones."""
        release = Release(group_id, len(placements))
        self._host.gangs.begin_release(release)
        for one in placements:
            self._host.confirm(one.pod)
            self._released.append(replace(one, release=release) if len(placements) > 1 else one)

    def _back_off(self, attempts: GangAttempts, now: float) -> None:
        attempts.retry_at = now + self._host.queue.pause(attempts.failures)
        attempts.failures += 1
        attempts.position = self._host.nodes.journal.position

    def _refuse(self, queue: ClassQueue, pod: QueuedPod, message: str, now: float) -> Refusal:
        self._host.queue.park(queue.key, now)
        return Refusal(pod, tuple(queue.take_untold(now)), gang=message)

    def _failure(self, group_id: str, result: TrialResult) -> str:
        """Why a group that has all its pods does not fit."""
        if result.failed is None:
            return f"gang group {group_id}: {result.why}"
        needed = self._host.gangs.needed(group_id)
        return (
            f"gang group {group_id} needs nodes for {needed} pods at once, {result.fitted} fit; "
            f"{result.failed.key} does not: {result.why}"
        )

    @contextmanager
    def _without_nominations(self, pods: Iterable[QueuedPod]) -> Iterator[None]:
        """Room that is kept for the pods of a group is there for all of them."""
        nominations = self._host.nominations
        kept = [one for pod in pods if (one := nominations.get(pod.key)) is not None]
        for one in kept:
            nominations.remove(one.key)
        try:
            yield
        finally:
            for one in kept:
                if one.key in self._host.queue.pods:
                    nominations.set(one)


def _is_fresh(queue: ClassQueue, now: float) -> bool:
    """Whether a pod came a short while ago, so that others may be about to come."""
    return bool(queue.entered) and now - queue.entered[-1].added < TOLD_AFTER_SECONDS
