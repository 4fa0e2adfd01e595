"""The scheduler without the API: what it learns of the cluster, and what it decides. No IO.

Pods get their nodes one at a time, in the order of the queue, each the best of all nodes. A pod
that was given a node is *assumed* to be there until the API says so, or it is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType

import numpy as np

from koord_scheduler.classes.pod_reader import ClusterPod, WaitingPod
from koord_scheduler.columns.arrays import Rows
from koord_scheduler.columns.disruption_budgets import DisruptionBudgets
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.columns.placed_pods import PlacedPod, PlacedPods
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.decisions import Decision, Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.nominations import Nomination, Nominations
from koord_scheduler.framework.plugin import Plugin
from koord_scheduler.framework.preemption import Preemption
from koord_scheduler.framework.preemptor import Preemptor
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.score_cache import ScoreCache
from koord_scheduler.queue.scheduling_queue import ClassQueue, QueuedPod, SchedulingQueue

FLUSH_SECONDS = 60.0
"""After which a parked class is tried again whatever happened: victims may have come since."""
WOKEN_AT_ONCE = 200
"""Parked classes that are looked at in one go: some milliseconds."""


class Scheduler:
    """Places the pods of ``profiles`` on nodes; times are monotonic seconds."""

    def __init__(
        self,
        profiles: Iterable[Profile],
        *,
        nodes: NodeColumns | None = None,
        queue: SchedulingQueue | None = None,
    ) -> None:
        self.nodes = nodes if nodes is not None else NodeColumns()
        self.placed = PlacedPods(self.nodes)
        self.queue = queue if queue is not None else SchedulingQueue()
        self.nominations = Nominations()
        self.budgets = DisruptionBudgets()
        self._preemptor = Preemptor(self.nodes, self.placed, self.budgets, self.nominations)
        self._reserved: dict[str, list[tuple[Plugin, object]]] = {}
        self._scores = ScoreCache(self.nodes, profiles)
        self._assumed: dict[str, QueuedPod] = {}
        self._number = 0
        self.assumed: Mapping[str, QueuedPod] = MappingProxyType(self._assumed)

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The profiles by scheduler name."""
        return self._scores.profiles

    # ---- what the API says

    def set_pod(self, pod: ClusterPod, now: float) -> None:
        """A pod is there, or has changed."""
        if pod.waiting is None:
            self._assumed.pop(pod.key, None)
            self._reserved.pop(pod.key, None)
            self.queue.remove(pod.key)
            self.nominations.remove(pod.key)
            self.placed.set(_placed(pod))
            return
        assumed = self._assumed.get(pod.key)
        if assumed is not None and assumed.uid == pod.uid:
            return  # what is on its way to the API is newer
        if pod.key in self.placed.by_key:
            self._unplace(pod.key)
        self._wait(pod, pod.waiting, now)

    def remove_pod(self, key: str) -> None:
        """A pod is gone."""
        self.queue.remove(key)
        self.nominations.remove(key)
        if key in self.placed.by_key:
            self._unplace(key)

    def _wait(self, pod: ClusterPod, waiting: WaitingPod, now: float) -> None:
        profile = self.profiles.get(waiting.scheduler_name)
        known = self.queue.pods.get(pod.key)
        if profile is None or pod.is_leaving:
            self.remove_pod(pod.key)
            return
        if known is not None and known.uid == pod.uid:
            self._update(known, pod, waiting)
            return
        self.nominations.remove(pod.key)
        self._number += 1
        made = QueuedPod(
            pod.key,
            pod.uid,
            pod.priority,
            waiting,
            self._number,
            now,
            reported=waiting.condition,
            is_nominated=bool(waiting.nominated),
        )
        if waiting.nominated:
            usage = waiting.usage
            nomination = Nomination(pod.key, waiting.nominated, pod.priority, usage)
            self.nominations.set(nomination)
        self.queue.set(made, is_gated=profile.honors_gates and bool(waiting.gates))

    def _update(self, known: QueuedPod, pod: ClusterPod, waiting: WaitingPod) -> None:
        """Most changes are of its condition, which this program wrote itself."""
        before = known.waiting
        if before.pod_class == waiting.pod_class and before[2:6] == waiting[2:6]:
            known.waiting = waiting
            return
        again = replace(known, priority=pod.priority, waiting=waiting, retry_at=0.0, attempts=0)
        honors = self.profiles[waiting.scheduler_name].honors_gates
        self.queue.set(again, is_gated=honors and bool(waiting.gates))

    # ---- decisions

    def decide(self, now: float) -> Decision | None:
        """Give the next pod a node, or say that there is none; ``None``: no pod is next."""
        pod = self.queue.next()
        if pod is None:
            return None
        try:
            scores = self.scores(pod)
            row = self._best(pod, scores, self._feasible(pod, scores))
            return self._assume(pod, row) if row is not None else self._refuse(pod, scores, now)
        except Exception as error:  # a plugin's, which is to cost no other class anything
            self._scores.forget(*pod.class_key[:2])
            return self._park(pod, now, defect=f"{type(error).__name__}: {error}")

    def _refuse(self, pod: QueuedPod, scores: ClassScores, now: float) -> Refusal | PreemptionPlan:
        if not self.profiles[pod.waiting.scheduler_name].preempts:
            return self._park(pod, now)
        found = self._preemptor.find(pod, scores)
        if isinstance(found, Preemption):
            return self._nominate(pod, found, now)
        return self._park(pod, now, preemption=found)

    def _nominate(self, pod: QueuedPod, preemption: Preemption, now: float) -> PreemptionPlan:
        """Keep the room of victims for a pod, which waits for it apart from its class."""
        node = preemption.node
        displaced = self.nominations.displace(node, pod.priority)
        self.nominations.set(Nomination(pod.key, node, pod.priority, pod.waiting.usage))
        again = replace(pod, is_nominated=True)
        self.queue.set(again)
        self.queue.park(again.class_key, now)
        return PreemptionPlan(again, preemption, displaced)

    def _park(
        self, pod: QueuedPod, now: float, *, preemption: str = "", defect: str = ""
    ) -> Refusal:
        queue = self.queue.park(pod.class_key, now)
        queue.has_defect = bool(defect)
        return Refusal(pod, tuple(queue.take_untold(now)), preemption, defect)

    def wake(self, now: float) -> int:
        """Let parked classes try again that may fit by now; returns how many."""
        woken = 0
        longest_ago = sorted(self.queue.parked(), key=attrgetter("looked_at"))
        for queue in longest_ago[:WOKEN_AT_ONCE]:
            queue.looked_at = now
            if self._may_fit(queue, now):
                self.queue.unpark(queue.key)
                woken += 1
        return woken

    def forget(self, pod: QueuedPod, now: float) -> None:
        """A pod did not get the node that it was given; its turn comes again."""
        if self._assumed.get(pod.key) is pod:  # else the API said meanwhile what became of it
            if pod.is_nominated:
                node, usage = self.placed.by_key[pod.key].node, pod.waiting.usage
                self.nominations.set(Nomination(pod.key, node, pod.priority, usage))
            self._unplace(pod.key)
            self.queue.back_off(pod, now)

    def forget_all(self, now: float) -> None:
        """Whatever was not confirmed yet: another one decides from now on."""
        for pod in tuple(self._assumed.values()):
            self.forget(pod, now)

    def scores(self, pod: QueuedPod) -> ClassScores:
        """What the plugins say about a waiting pod's class."""
        return self._scores.get(*pod.class_key[:2])

    def count_held_nodes(self, pod: QueuedPod) -> int:
        """How many nodes a waiting pod would fit on if they were not kept for nominated pods."""
        scores = self.scores(pod)
        return len(scores.feasible()) - len(self._feasible(pod, scores))

    def _may_fit(self, queue: ClassQueue, now: float) -> bool:
        if now - queue.parked_at >= FLUSH_SECONDS:
            return True
        head = queue.head()
        if head is None or queue.has_defect:
            return False
        try:
            return len(self._feasible(head[-1], self.scores(head[-1]))) > 0
        except Exception:  # the next decision says so
            return True

    def _assume(self, pod: QueuedPod, row: int) -> Placement:
        node, waiting = self.nodes.name(row), pod.waiting
        reserved: list[tuple[Plugin, object]] = []
        for plugin in self.profiles[waiting.scheduler_name].reserving:
            reservation = plugin.reserve(waiting.pod_class, self.nodes, row)
            if reservation is not None:
                reserved.append((plugin, reservation))
        if reserved:
            self._reserved[pod.key] = reserved
        self.placed.set(PlacedPod(pod.key, pod.uid, node, pod.priority, None, waiting.usage))
        self.queue.remove(pod.key)
        self.nominations.remove(pod.key)  # it has that room now, or another
        self._assumed[pod.key] = pod
        return Placement(pod, node, tuple(one for _, one in reserved))

    def _unplace(self, key: str) -> None:
        self._assumed.pop(key, None)
        for plugin, reservation in self._reserved.pop(key, ()):
            plugin.unreserve(reservation, self.nodes)
        self.placed.remove(key)

    def _feasible(self, pod: QueuedPod, scores: ClassScores) -> Rows:
        """The rows where a pod fits beside the pods that room is kept for."""
        rows = scores.feasible()
        if not len(self.nominations) or not len(rows):
            return rows
        by_row: dict[int, list[Nomination]] = {}
        for one in self.nominations.against(pod.key, pod.priority):
            row = self.nodes.row(one.node)
            if row is not None:
                by_row.setdefault(row, []).append(one)
        taken = [row for row, held in by_row.items() if not self._fits_beside(scores, row, held)]
        return rows[~np.isin(rows, taken)] if taken else rows

    def _fits_beside(self, scores: ClassScores, row: int, held: Iterable[Nomination]) -> bool:
        for one in held:
            self.nodes.add_pod(one.node, one.usage)
        fits = not scores.rejections(row)
        for one in held:
            self.nodes.remove_pod(one.node, one.usage)
        return fits

    def _best(self, pod: QueuedPod, scores: ClassScores, rows: Rows) -> int | None:
        """The best row, or the one that is kept for the pod if it fits there."""
        nomination = self.nominations.get(pod.key)
        row = self.nodes.row(nomination.node) if nomination is not None else None
        if row is not None and row in rows:
            return row
        return scores.best(rows)


def _placed(pod: ClusterPod) -> PlacedPod:
    started, is_preempted = pod.started, pod.is_preempted
    return PlacedPod(pod.key, pod.uid, pod.node, pod.priority, started, pod.usage, is_preempted)
