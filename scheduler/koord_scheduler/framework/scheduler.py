"""The scheduler without the API: which pod gets which node. No IO.

Pods get their nodes one at a time, in the order of the queue, each the best of all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from koord_scheduler.extenders.calls import CallFailure
from koord_scheduler.extenders.extender import Extender, interested
from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.extenders.refusal import RESERVE, ExtenderRefusal, NodeFailure
from koord_scheduler.extenders.steps import Steps
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.decisions import (
    Decision,
    ExtenderFailure,
    ExtenderQuestion,
    Placement,
    PreemptionPlan,
    Refusal,
)
from koord_scheduler.framework.diagnosis import Diagnosis, diagnose
from koord_scheduler.framework.disruption_budgets import DisruptionBudgets
from koord_scheduler.framework.extended_choice import (
    ChosenPreemption,
    ExtendedResult,
    FeasibleNodes,
    choose_node,
    choose_preemption,
)
from koord_scheduler.framework.fit_error import NO_CANDIDATE, preemption_message
from koord_scheduler.framework.gang_cycle import GangCycle
from koord_scheduler.framework.gang_planner import GangCandidate
from koord_scheduler.framework.gang_states import GangStates
from koord_scheduler.framework.node_sample import FEWEST, NodeSampler
from koord_scheduler.framework.nominated_room import NominatedRoom
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.framework.parked_columns import NOTHING_HELPS, ParkedNeeds
from koord_scheduler.framework.preemption import Candidates
from koord_scheduler.framework.preemptor import Preemptor
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.queue.scheduling_queue import ClassQueue, QueuedPod, SchedulingQueue
from koord_scheduler.framework.score_cache import ScoreCache
from koord_scheduler.framework.wake_budget import UNLIMITED, WakeBudget
from koord_scheduler.framework.waker import NOWHERE, Look, Waker
from koord_scheduler.plugin import CannotReserve, VictimRules
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.resources import Request

_MOST_LATE = 100
"""Number of nodes that may fail late for a pod before it waits."""

OnFiltered = Callable[[QueuedPod, ClassScores, Rows], None]
"""Hears of a pod that gets its turn, and of all rows where it fits: a sample would not do."""


class Scheduler(GangStates):
    """Places the pods of ``profiles`` on nodes; times are monotonic seconds."""

    def __init__(
        self,
        profiles: Iterable[Profile],
        *,
        nodes: ClusterState | None = None,
        queue: SchedulingQueue | None = None,
        extenders: Sequence[Extender] = (),
    ) -> None:
        by_name = {one.scheduler_name: one for one in profiles}
        super().__init__(
            by_name,
            nodes if nodes is not None else ClusterState(),
            queue if queue is not None else SchedulingQueue(),
        )
        self.budgets = DisruptionBudgets()
        self._preemptor = Preemptor(self.nodes, self.placed, self.budgets, self.nominations)
        self._nominated_room = NominatedRoom(self.nodes, self.nominations)
        self._scores = ScoreCache(self.nodes, by_name)
        self._sampler = NodeSampler(self.nodes)
        self._admitting = {
            name: profile.admitting for name, profile in by_name.items() if profile.admitting
        }
        self._extenders = extenders
        self.on_filtered: OnFiltered | None = None
        self.gang_cycle = GangCycle(self)
        plugins = (enabled.plugin for profile in by_name.values() for enabled in profile.plugins)
        planners = (plugin.group_planner(self.placed) for plugin in plugins)
        self.gang_cycle.planner = next(
            (planner for planner in planners if planner is not None), None
        )
        self._waker = Waker(self)

    def decide(self, now: float) -> Decision | ExtenderQuestion | None:
        """Give the next pod a node, or say that there is none; ``None``: no pod is next.

        Nothing may be decided between a question and its ``answer``.
        """
        self.separate_selected()
        while (pod := self._next_pod_or_decision()) is not None:
            if isinstance(pod, Placement | PreemptionPlan):
                return pod
            decision = self._decide_gang(pod, now) if pod.gang else self._decide(pod, now)
            if decision is not None or not pod.gang:
                return decision
        return None

    def _next_pod_or_decision(self) -> QueuedPod | Placement | PreemptionPlan | None:
        """Return the next decision on gangs, but for pods that are gone by now, or the next pod."""
        while (decided := self.gang_cycle.next_decided()) is not None:
            pod = decided.pod
            is_plan = isinstance(decided, PreemptionPlan)
            if pod.in_queue if is_plan else self.assumed.get(pod.key) is pod:
                return decided
        return self.queue.next()

    def _decide_gang(self, pod: QueuedPod, now: float) -> Refusal | None:
        try:
            return self.gang_cycle.decide(pod, now)
        except Exception as error:
            return self._defect(pod, error, now)

    def _decide(self, pod: QueuedPod, now: float) -> Decision | ExtenderQuestion | None:
        try:
            if self.not_admitted(pod):
                return self._refuse(pod, self.scores(pod), now)
            extenders = self._interested(pod)
            looks_at_all = bool(extenders) or self.on_filtered is not None
            row = None if looks_at_all else self._best_of_sample(pod)
            if row is not None:
                with suppress(CannotReserve):
                    return self.assume(pod, row)
            scores = self.scores(pod)
            feasible = self._feasible(pod, scores)
            if self.on_filtered is not None:
                self.on_filtered(pod, scores, feasible)
            if extenders and len(feasible):
                nodes = self._feasible_nodes(pod, scores)
                return self._ask(pod, choose_node(extenders, nodes), now)
            return self._take_best(pod, scores, feasible, now)
        except Exception as error:  # a plugin's, which is to cost no other class anything
            return self._defect(pod, error, now)

    def _take_best(
        self, pod: QueuedPod, scores: ClassScores, rows: Rows, now: float
    ) -> Decision | ExtenderQuestion | None:
        """Give a pod the best of some rows that can have it once plugins reserve its room there."""
        failed: dict[str, NodeFailure] = {}
        while len(failed) < _MOST_LATE and (row := self._best(pod, scores, rows)) is not None:
            try:
                return self.assume(pod, row)
            except CannotReserve as error:
                failed[self.nodes.name(row)] = NodeFailure(str(error), resolvable=False)
                rows = rows[rows != row]
        if failed:
            return self._reject(pod, now, ExtenderRefusal(failed, by=RESERVE))
        return self._refuse(pod, scores, now)

    def answer(
        self, question: ExtenderQuestion, answers: Sequence[Any], now: float
    ) -> Decision | ExtenderQuestion | None:
        """Go on with the answers to all calls of a question, ``CallFailure`` where one failed.

        What the API said meanwhile counts. ``None``: by that nothing can be said of the pod any
        more, or it has to be decided from the beginning.
        """
        pod = question.pod
        if not pod.in_queue:
            return None
        try:
            return self._ask(pod, question.steps, now, answers)
        except Exception as error:
            return self._defect(pod, error, now)

    def _ask(
        self,
        pod: QueuedPod,
        steps: Steps[ExtendedResult],
        now: float,
        answers: Sequence[Any] | None = None,
    ) -> Decision | ExtenderQuestion | None:
        try:
            calls = next(steps) if answers is None else steps.send(answers)
        except StopIteration as end:
            return self._conclude(pod, end.value, now)
        return ExtenderQuestion(pod, calls, steps)

    def _conclude(
        self, pod: QueuedPod, result: ExtendedResult, now: float
    ) -> Decision | ExtenderQuestion | None:
        match result:
            case None:
                return None
            case int():
                return None if self.not_admitted(pod) else self._take_named(pod, result, now)
            case CallFailure():
                again = self.queue.back_off(pod, now)
                again.extender_refusal = ExtenderRefusal(failure=result.text)
                return ExtenderFailure(again, result.text)
            case ExtenderRefusal():
                return self._refuse(pod, self.scores(pod), now, result)
            case ChosenPreemption(refusal, preemption):
                if isinstance(preemption, Preemption):
                    return self._nominate(pod, preemption, now, refusal)
                return self._reject(pod, now, refusal, preemption)

    def _take_named(self, pod: QueuedPod, row: int, now: float) -> Decision:
        try:
            return self.assume(pod, row)
        except CannotReserve as error:
            failed = {self.nodes.name(row): NodeFailure(str(error), resolvable=False)}
            return self._reject(pod, now, ExtenderRefusal(failed, by=RESERVE))

    def _defect(self, pod: QueuedPod, error: Exception, now: float) -> Refusal:
        self._scores.forget(pod.scores_key)
        return self._park(pod, now, defect=f"{type(error).__name__}: {error}")

    def _interested(self, pod: QueuedPod) -> tuple[Extender, ...]:
        """The extenders that are asked about a pod."""
        if not self._extenders or pod.waiting.stands_for is not None:
            return ()
        return interested(self._extenders, pod.waiting.pod_class)

    def _feasible_nodes(self, pod: QueuedPod, scores: ClassScores) -> FeasibleNodes:
        nomination = self.nominations.get(pod.key)
        nominated = nomination.node if nomination is not None else ""
        rows = partial(self._feasible, pod, scores)
        return FeasibleNodes(pod.key, scores, rows, nominated, self.placed)

    def _refuse(
        self,
        pod: QueuedPod,
        scores: ClassScores,
        now: float,
        refusal: ExtenderRefusal | None = None,
    ) -> Decision | ExtenderQuestion | None:
        """A pod fits nowhere; ``refusal``: extenders reject the nodes that plugins left."""
        not_admitted = self.not_admitted(pod)
        remedy = self.remedy(pod) if refusal is None and not not_admitted else None
        if remedy is not None:
            return self._park(pod, now, remedy=remedy)
        found: Candidates | str = ""
        for victims in self._victims(pod, is_admitted=not not_admitted):
            found = self._preemptor.find(pod, scores, refusal, victims)
            if not isinstance(found, str):
                break
        if isinstance(found, str):
            kept = self._withdraw_nomination(pod, scores)
            rejection = self._reject(kept, now, refusal, found)
            lost = kept is not pod
            return replace(rejection, not_admitted=not_admitted, lost_nomination=lost)
        extenders = [one for one in self._interested(pod) if one.preempt_verb]
        if extenders:
            nodes = self._feasible_nodes(pod, scores)
            return self._ask(pod, choose_preemption(extenders, nodes, found, refusal), now)
        best = found.best() or preemption_message(NO_CANDIDATE)
        return self._conclude(pod, ChosenPreemption(refusal, best), now)

    def remedy(self, pod: QueuedPod) -> object | None:
        """Return the remedy to be written for a pod that fits nowhere; ``None``: nothing."""
        scores = self.scores(pod)
        for plugin in self.profiles[pod.waiting.scheduler_name].helping:
            rows = partial(scores.rejected_alone_by, plugin.name)
            waiting = (one.uid for one in self.queue.waiting_with(pod.class_key))
            found = plugin.post_filter(pod.waiting.pod_class, self.nodes, rows, waiting)
            if found is not None:
                return found
        return None

    def _victims(self, pod: QueuedPod, *, is_admitted: bool) -> Iterator[VictimRules | None]:
        """Rules for a pod's victims, in the order in which it tries; ``None``: any pods.

        Pods in general do not help one that is not admitted to any node.
        """
        profile, pod_class = self.profiles[pod.waiting.scheduler_name], pod.waiting.pod_class
        if pod.waiting.stands_for is None:
            for plugin in profile.preempting:
                victims = plugin.victims(pod_class, self.nodes)
                if victims is not None:
                    yield victims
        if profile.preempts and is_admitted:
            yield None

    def _nominate(
        self, pod: QueuedPod, preemption: Preemption, now: float, refusal: ExtenderRefusal | None
    ) -> PreemptionPlan:
        """Keep the room of victims for a pod, which waits for it apart from its class."""
        node = preemption.node
        displaced = self.nominations.displace(node, pod.priority)
        victims = tuple(victim.key for victim in preemption.victims)
        nomination = Nomination(pod.key, node, pod.priority, pod.waiting.usage, victims)
        self.nominations.set(nomination)
        again = replace(pod, is_nominated=True, extender_refusal=refusal)
        if refusal is None:
            self.queue.set(again)
            self.queue.park(again.class_key, now)
        else:
            again = self.queue.back_off(again, now)
        return PreemptionPlan(again, preemption, displaced)

    def _withdraw_nomination(self, pod: QueuedPod, scores: ClassScores) -> QueuedPod:
        """Keep room no longer for a pod that got nothing from it; returns it as it waits now."""
        nomination = self.nominations.get(pod.key)
        if nomination is None:
            return pod
        if self._preemptor.keeps_nomination(pod, scores):
            self.nominations.set(nomination._replace(victims=()))  # it was tried without them
            return pod
        return self.nominate(pod, None)

    def _reject(
        self,
        pod: QueuedPod,
        now: float,
        refusal: ExtenderRefusal | None,
        preemption: str = "",
    ) -> Refusal:
        """Park the class of a pod that fits nowhere, or only that pod where extenders say so."""
        if refusal is None:
            return self._park(pod, now, preemption=preemption)
        again = self.queue.back_off(pod, now)
        again.extender_refusal = refusal
        return Refusal(again, (again,), preemption, extenders=refusal)

    def _park(
        self,
        pod: QueuedPod,
        now: float,
        *,
        preemption: str = "",
        defect: str = "",
        remedy: object = None,
    ) -> Refusal:
        pod.extender_refusal = None  # it is plugins now
        queue = self.queue.park(pod.class_key, now)
        queue.has_defect = bool(defect)
        return Refusal(pod, tuple(queue.take_unreported(now)), preemption, defect, remedy=remedy)

    def wake(self, now: float, budget: WakeBudget = UNLIMITED) -> int:
        """Let parked classes try again that may fit by now; returns how many."""
        self.separate_selected()
        self.gang_cycle.expire(now)
        return self._waker.wake(now, budget)

    @property
    def is_waking(self) -> bool:
        """True if there are more parked classes that may fit than the last ``budget`` allowed."""
        return self._waker.is_unfinished

    def was_in_vain(self, decision: Decision) -> bool:
        """True if it is about a class that was woken, and fits nowhere nevertheless."""
        if not isinstance(decision, Refusal):
            return False
        queue = self.queue.class_with(decision.pod.class_key)
        return queue is not None and queue.in_vain

    def not_admitted(self, *pods: QueuedPod) -> str:
        """Return why waiting pods may not get nodes together at present; "" if they may."""
        for name, admitting in self._admitting.items():
            own = (pod.waiting for pod in pods if pod.waiting.scheduler_name == name)
            classes = [waiting.pod_class for waiting in own]
            for plugin in admitting if classes else ():
                if reason := plugin.admit(classes, self.nodes):
                    return reason
        return ""

    def scores(self, pod: QueuedPod) -> ClassScores:
        """Return the plugins' answers about a waiting pod's class."""
        return self._scores.get(pod.scores_key)

    def count_held_nodes(self, pod: QueuedPod) -> int:
        """Return how many nodes fit a waiting pod that are reserved for nominated pods."""
        scores = self.scores(pod)
        return len(scores.feasible()) - len(self._feasible(pod, scores))

    def look(self, queue: ClassQueue, now: float) -> Look:
        """Ask plugins about a parked class."""
        head = queue.head()
        if head is None or queue.has_defect:
            return Look(may_fit=False, needs=NOTHING_HELPS)
        try:
            if queue.key.gang:
                may_fit, rows = self.gang_cycle.may_fit(queue, now), NOWHERE
            elif queue.key.nominated and self._victims_are_gone(queue.key.nominated):
                may_fit, rows = True, NOWHERE
            else:
                rows = NOWHERE if self.not_admitted(head[-1]) else self.fitting_rows(head[-1])
                may_fit = len(rows) > 0
            return Look(may_fit, ParkedNeeds() if may_fit else self.needs(queue, now), rows)
        except Exception:  # the next decision says so
            return Look(may_fit=True)

    def needs(self, queue: ClassQueue, now: float) -> ParkedNeeds:
        """Needs of a class that fits nowhere."""
        if queue.has_defect:
            return NOTHING_HELPS
        try:
            return self.gang_cycle.needs(queue, now) if queue.key.gang else self._needs(queue)
        except Exception:  # as above
            return ParkedNeeds(is_sure=True)

    def _needs(self, queue: ClassQueue) -> ParkedNeeds:
        pod = queue.heap[0][-1]
        nomination = self.nominations.get(queue.key.nominated)
        row = self.nodes.row(nomination.node) if nomination is not None else None
        is_sure = bool(queue.key.nominated) and self._victims_are_gone(queue.key.nominated)
        row = -1 if row is None else row
        needs = ParkedNeeds(self.least_room(pod), row=row, is_sure=is_sure)
        scores = self._scores.known(pod.scores_key)
        if scores is None or self.not_admitted(pod):
            return needs
        everywhere = not scores.depends_on_changed_rows()
        return needs._replace(base=scores.base, everywhere=everywhere)

    def least_room(self, pod: QueuedPod) -> Request:
        """Amounts that a node has to have free for a waiting pod, by what plugins say."""
        plugins = self.profiles[pod.waiting.scheduler_name].measuring
        found = (plugin.least_room(pod.waiting.pod_class, self.nodes) for plugin in plugins)
        return tuple(amount for amounts in found for amount in amounts)

    def _victims_are_gone(self, key: str) -> bool:
        """True if all victims of a nominated pod are gone, so that it has to be decided again."""
        nomination = self.nominations.get(key)
        if nomination is None or not nomination.victims:
            return False
        return not any(victim in self.placed.by_key for victim in nomination.victims)

    def choose(self, pod: QueuedPod, candidate: GangCandidate) -> int | None:
        """The best row of a part of the cluster for a pod; ``None`` if it fits nowhere there."""
        if self.not_admitted(pod):
            return None
        scores = self.scores(pod)
        rows = self._feasible(pod, scores)
        if self.on_filtered is not None:
            self.on_filtered(pod, scores, rows)
        return self._best(pod, scores, candidate.among(pod.key, rows))

    def fitting_rows(self, pod: QueuedPod) -> Rows:
        """The rows where a waiting pod fits beside the pods that room is kept for."""
        return self._feasible(pod, self.scores(pod))

    def find_victims(self, pod: QueuedPod) -> Candidates | str:
        """Find where preemption helps a pod that fits nowhere; or why it does nowhere."""
        if reason := self.not_admitted(pod):
            return reason
        return self._preemptor.find(pod, self.scores(pod))

    def diagnosis(self, pod: QueuedPod) -> Diagnosis:
        """Reasons for which nodes reject a pod."""
        return diagnose(self.scores(pod))

    def objects_state(self, pods: Iterable[QueuedPod]) -> Hashable:
        """A value that changes with the objects beside nodes on which it depends where pods fit."""
        found: dict[tuple[str, PodClass], Hashable] = {}
        for pod in pods:
            if pod.scores_key not in found:
                plugins = self.profiles[pod.waiting.scheduler_name].plugins
                depends = (
                    plugin.plugin.depends_on(pod.waiting.pod_class, self.nodes)
                    for plugin in plugins
                )
                found[pod.scores_key] = tuple(state() for state in depends if state is not None)
        return self.nodes.generation, *found.values()

    def obstacle(self, pods: Iterable[QueuedPod]) -> str:
        """Return why pods cannot be placed together at all; "" if nothing speaks against it."""
        asked = next((one for pod in pods for one in self._interested(pod)), None)
        return f"the extender {asked.url} is not asked about gangs" if asked is not None else ""

    def forget_all(self, now: float) -> None:
        """Forget all that was not confirmed yet: another scheduler decides from now on."""
        self.gang_cycle.clear()
        super().forget_all(now)

    def _feasible(self, pod: QueuedPod, scores: ClassScores) -> Rows:
        """The rows where a pod fits beside the pods that room is kept for."""
        rows = scores.feasible()
        if not len(self.nominations) or not len(rows):
            return rows
        return self._nominated_room.rows_beside(pod.key, pod.priority, scores, rows)

    def _best_of_sample(self, pod: QueuedPod) -> int | None:
        """The best of some nodes, for a class that was never seen in a large cluster."""
        key = pod.scores_key
        number = self._sampler.size(self.profiles[key[0]].percentage_of_nodes_to_score)
        if not number or len(self.nominations):
            return None
        scores = self._scores.get_once(key)
        return scores.best_of_sample(self._sampler.take(number), FEWEST) if scores else None

    def _best(self, pod: QueuedPod, scores: ClassScores, rows: Rows) -> int | None:
        """The row that is kept for the pod if it fits there, else a preferred one or the best."""
        nomination = self.nominations.get(pod.key)
        row = self.nodes.row(nomination.node) if nomination is not None else None
        if row is not None and row in rows:
            return row
        return scores.best(scores.first_preferred(rows))
