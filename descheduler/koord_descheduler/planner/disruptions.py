"""Disruption budgets as moves spend them. No IO."""

from __future__ import annotations

from collections import Counter

from koord_scheduler.framework.disruption_budgets import DisruptionBudgets
from koord_scheduler.objects.disruption_budget import DisruptionBudget
from koord_scheduler.state.pod_labels import pod_labels

from koord_descheduler.objects.observed_pod import ObservedPod


class Disruptions:
    """The rest of the budgets' status after the moves of a round."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._spent: Counter[str] = Counter()

    def refusal(self, pod: ObservedPod) -> str:
        """Return the budget that forbids an eviction, in a line; "" if none does.

        As the Eviction API decides: it evicts no pod that two budgets select. Pods that do not run
        yet, or have ended, count for none; pods that are not ready only where the budget is short
        of healthy ones.
        """
        if pod.has_ended or pod.phase == "Pending":
            return ""
        about = self._about(pod)
        if len(about) > 1:
            names = ", ".join(budget.name for budget in about)
            return f"{len(about)} PodDisruptionBudgets select it, so it cannot be evicted: {names}"
        for budget in about:
            if not pod.is_ready and not budget.spares_unready:
                continue
            left = budget.allowed - self._spent[budget.key]
            if left <= 0 and pod.name not in budget.disrupted:
                return f"PodDisruptionBudget {budget.name} allows no disruption now"
        return ""

    def _about(self, pod: ObservedPod) -> list[DisruptionBudget]:
        return self._budgets.about(pod_labels(pod.namespace, pod.template.labels))

    def charge(self, pod: ObservedPod) -> None:
        """A pod is to be evicted."""
        self._count(pod, 1)

    def refund(self, pod: ObservedPod) -> None:
        """It is not, after all."""
        self._count(pod, -1)

    def _count(self, pod: ObservedPod, number: int) -> None:
        if pod.has_ended or not pod.is_ready:
            return
        for budget in self._about(pod):
            self._spent[budget.key] += number
