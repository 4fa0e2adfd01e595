"""Filling a domain part by part, each as far as possible: Koordinator's way. No IO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koord_scheduler.network.problem import Counts, GatherProblem
from koord_scheduler.network.tree import Domain

Filled = list[tuple[int, Counts]]
"""Leaves in the order in which they are filled, and how many members of each class they get."""


def greedy_fill(problem: GatherProblem, domain: Domain) -> Filled:
    """Members in a domain, as many as there is room for by this order.

    Parts come first where more pods exist already, then those with more slots; in each, the class
    that fits on the fewest nodes comes first.
    """
    filling = _Filling(problem)
    filling.fill(domain, problem.total)
    return filling.done


class _Filling:
    def __init__(self, problem: GatherProblem) -> None:
        self.done: Filled = []
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
        if problem.is_even(domain, placed):
            return placed
        self._take_back(begin)
        return 0

    def _order(self, domain: Domain) -> list[int]:
        problem, children, layer = (
            self._problem,
            self._problem.tree.children(domain),
            domain.layer + 1,
        )
        at = slice(children.start, children.stop)
        keys = (
            problem.scores_in[layer][at],
            problem.pods_in[layer][at],
            problem.existing_in[layer][at],
        )
        order = np.lexsort([-one for one in keys]) + children.start
        return [place for place in order.tolist() if problem.pods_in[layer][place]]

    def _fill_leaf(self, leaf: int, most: int) -> int:
        problem, counts = self._problem, [0] * len(self._remaining)
        for one in self._classes:
            number = min(int(problem.slots[one, leaf]), self._remaining[one], most - sum(counts))
            while number and len(counts) > 1:
                counts[one] = number
                if problem.fits(leaf, tuple(counts)):
                    break
                number -= 1
            counts[one] = number
        if any(counts):
            self._add(leaf, counts, 1)
            self.done.append((leaf, tuple(counts)))
        return sum(counts)

    def _take_back(self, begin: int) -> None:
        for leaf, counts in self.done[begin:]:
            self._add(leaf, counts, -1)
        del self.done[begin:]

    def _add(self, leaf: int, counts: Sequence[int], sign: int) -> None:
        for one, number in enumerate(counts):
            self._remaining[one] -= sign * number
