"""Preemption by a pod that fits nowhere, or the reason against it. No IO."""

from __future__ import annotations

import numpy as np

from koord_scheduler.extenders.refusal import ExtenderRefusal
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.disruption_budgets import DisruptionBudgets
from koord_scheduler.framework.fit_error import (
    NEVER_PREEMPTS,
    NO_VICTIMS,
    WAITS_FOR_VICTIMS,
    failed_preemption,
    preemption_message,
)
from koord_scheduler.framework.nominations import Nominations
from koord_scheduler.framework.preemption import (
    Candidates,
    find_candidates,
    may_preempt,
)
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.plugin import VictimRules
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods

_NO_ROOM = "node(s) have no room without victims either"


class Preemptor:
    """Finds victims among ``placed``."""

    def __init__(
        self,
        nodes: ClusterState,
        placed: PlacedPods,
        budgets: DisruptionBudgets,
        nominations: Nominations,
    ) -> None:
        self._nodes = nodes
        self._placed = placed
        self._budgets = budgets
        self._nominations = nominations

    def find(
        self,
        pod: QueuedPod,
        scores: ClassScores,
        refusal: ExtenderRefusal | None = None,
        victims: VictimRules | None = None,
    ) -> Candidates | str:
        """Find where preemption helps; or why it does nowhere, in kube-scheduler's words.

        ``refusal``: extenders reject some nodes. ``victims``: not all pods may be.
        """
        if not pod.waiting.preempts:
            return preemption_message(NEVER_PREEMPTS)
        if self._waits_for_victims(pod, scores):
            return preemption_message(WAITS_FOR_VICTIMS)
        against = self._nominations.against(pod.key, pod.priority)
        candidates = find_candidates(
            scores,
            pod.priority,
            self._nodes,
            self._placed,
            self._budgets,
            against,
            None if refusal is None else self._unhelpful(refusal),
            victims,
        )
        return candidates if len(candidates) else preemption_message(_failure(candidates))

    def keeps_nomination(self, pod: QueuedPod, scores: ClassScores) -> bool:
        """True if a nominated pod for which ``find`` found nothing stays nominated."""
        return not pod.waiting.preempts or self._waits_for_victims(pod, scores)

    def _waits_for_victims(self, pod: QueuedPod, scores: ClassScores) -> bool:
        nomination = self._nominations.get(pod.key)
        nominated = nomination.node if nomination is not None else ""
        return not may_preempt(scores, pod.priority, nominated, self._nodes, self._placed)

    def _unhelpful(self, refusal: ExtenderRefusal) -> Rows:
        nodes = refusal.nodes.items()
        rows = (self._nodes.row(name) for name, node in nodes if not node.resolvable)
        return np.array([row for row in rows if row is not None], np.intp)


def _failure(candidates: Candidates) -> str:
    tried = candidates.without_victims + candidates.rejected
    reasons = {NO_VICTIMS: candidates.without_victims, _NO_ROOM: candidates.rejected}
    counted = {text: number for text, number in reasons.items() if number}
    return failed_preemption(tried + candidates.unhelpful, tried, counted)
