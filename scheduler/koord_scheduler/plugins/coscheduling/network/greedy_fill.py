"""Filling a domain part by part, each as far as possible: Koordinator's way. No IO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koord_scheduler.plugins.coscheduling.network.problem import Counts, GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain

LeafCounts = list[tuple[int, Counts]]
"""Leaves in the order in which they are filled, and how many members of each class they get."""


def greedy_fill(problem: GatherProblem, domain: Domain) -> LeafCounts:
    """Members in a domain, as many as there is room for by this order.

    Parts come first where more pods exist already, then those with more slots; in each, the class
    that fits on the fewest nodes comes first.
    """
    filling = _GreedyFill(problem)
    filling.fill(domain, problem.total)
    return filling.done


class _GreedyFill:
    def __init__(self, problem: GatherProblem) -> None:
        self.done: LeafCounts = []
        self._problem = problem
        self._remaining = list(problem.counts)
        rooms = problem.slots.sum(axis=1) / np.array(problem.counts)
        self._classes: Sequence[int] = np.argsort(rooms, kind="stable").tolist()

    def fill(self, domain: Domain, most: int) -> int:
        """Place up to ``most`` members; returns how many."""
        problem, begin = self._problem, len(self.done)
        most = min(most, int(problem.pods_in[domain.layer][domain.place]))
        most, placed = problem.usable(domain, most), 0
        if domain.layer == problem.last:
            placed = self._fill_leaf(domain.place, most) if most else 0
        else:
            for place in self._order(domain) if most else ():
                placed += self.fill(Domain(domain.layer + 1, place), most - placed)
                if placed == most:
                    break
        if problem.keeps_multiple(domain, placed):
            return placed
        self._take_back(begin)
        return 0

    def _order(self, domain: Domain) -> list[int]:
        problem, layer = self._problem, domain.layer + 1
        children = problem.tree.children(domain)
        at = slice(children.start, children.stop)
        pods = problem.pods_in[layer][at]
        order = np.lexsort((-pods, -problem.existing_in[layer][at]))
        found: list[int] = (order[pods[order] > 0] + children.start).tolist()
        return found

    def _fill_leaf(self, leaf: int, most: int) -> int:
        counts = np.zeros(len(self._remaining), np.intp)
        for pod_class in self._classes:
            fits = self._problem.most(leaf, pod_class, counts)
            counts[pod_class] = min(fits, self._remaining[pod_class], most - int(counts.sum()))
        found = tuple(counts.tolist())
        if any(found):
            self._add(found, 1)
            self.done.append((leaf, found))
        return sum(found)

    def _take_back(self, begin: int) -> None:
        for _, counts in self.done[begin:]:
            self._add(counts, -1)
        del self.done[begin:]

    def _add(self, counts: Counts, sign: int) -> None:
        for one, number in enumerate(counts):
            self._remaining[one] -= sign * number
