"""The disruption budgets of the cluster, and which pods they are about. No IO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koord_scheduler.objects.disruption_budget import DisruptionBudget
from koord_scheduler.state.arrays import Codes, Mask
from koord_scheduler.state.placed_pods import PlacedPods, PodsByRow
from koord_scheduler.state.pod_labels import PodLabels

_MOST_LABELS = 1 << 16


class DisruptionBudgets:
    """Budgets by key; which ones are about pods with some labels is remembered."""

    def __init__(self) -> None:
        self._budgets: dict[str, DisruptionBudget] = {}
        self._namespaces: dict[str, dict[str, None]] = {}
        self._keys_of: dict[PodLabels, tuple[str, ...]] = {}

    def set(self, budget: DisruptionBudget) -> None:
        """Add a budget, or take over what changed in one."""
        before = self._budgets.get(budget.key)
        if before is None or before.selector != budget.selector:
            self._keys_of.clear()
        self._budgets[budget.key] = budget
        self._namespaces.setdefault(budget.namespace, {})[budget.key] = None

    def remove(self, key: str) -> None:
        """Forget a budget."""
        budget = self._budgets.pop(key)
        del self._namespaces[budget.namespace][key]
        self._keys_of.clear()

    def about(self, labels: PodLabels) -> list[DisruptionBudget]:
        """The budgets that are about pods with these labels."""
        return [self._budgets[key] for key in self._about(labels)]

    def violated_by(self, pods: PodsByRow, placed: PlacedPods) -> Mask:
        """Of each of these pods, whether its eviction violates a budget.

        The more important pods of its row are taken as evicted before it, those of other rows
        are not: as Kubernetes' ``filterPodsWithPDBViolation`` for each node.
        """
        found = np.zeros(len(pods.at), np.bool_)
        keys, place, budget = self._pairs(pods, placed)
        if not len(place):
            return found
        # By budget; within one, pods stay in order of their rows and importance.
        order = np.argsort(budget, kind="stable")
        budget, place = budget[order], place[order]
        group = budget * (1 + pods.at[-1]) + pods.at[place]
        starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        lengths = np.diff(np.append(starts, len(group)))
        rank = np.arange(len(group)) - np.repeat(starts, lengths)
        allowed = np.array([self._budgets[key].allowed for key in keys])
        found[place[rank >= allowed[budget]]] = True
        return found

    def _pairs(self, pods: PodsByRow, placed: PlacedPods) -> tuple[list[str], Codes, Codes]:
        """Keys of budgets; and pairs of a pod and a budget that is about it, by their places."""
        codes = placed.usage[pods.slots]
        counts, firsts = np.zeros((2, len(codes) and 1 + codes.max()), np.intp)
        numbers: dict[str, int] = {}
        flat: list[int] = []
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            about = self._about(placed.usage_of(code).labels)
            firsts[code], counts[code] = len(flat), len(about)
            flat += [numbers.setdefault(key, len(numbers)) for key in about]
        of_pod = counts[codes]
        place = np.repeat(np.arange(len(codes)), of_pod)
        within = np.arange(len(place)) - np.repeat(np.cumsum(of_pod) - of_pod, of_pod)
        budget = np.array(flat, np.intp)[firsts[codes[place]] + within]
        slots, counted = pods.slots[place], np.ones(len(place), np.bool_)
        for key, number in numbers.items():
            one = self._budgets[key]
            for slot in map(placed.slot, (f"{one.namespace}/{name}" for name in one.disrupted)):
                counted &= (budget != number) | (slots != (-1 if slot is None else slot))
        return list(numbers), place[counted], budget[counted]

    def _about(self, labels: PodLabels) -> Sequence[str]:
        """The keys of the budgets that are about pods with these labels."""
        of_namespace = self._namespaces.get(labels.namespace)
        if not of_namespace:
            return ()
        found = self._keys_of.get(labels)
        if found is None:
            by_name = dict(labels.labels)
            found = tuple(
                key for key in of_namespace if self._budgets[key].means(labels.namespace, by_name)
            )
            if len(self._keys_of) >= _MOST_LABELS:
                self._keys_of.clear()
            self._keys_of[labels] = found
        return found
