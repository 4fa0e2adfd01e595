"""The members of a gang in the fewest parts of a domain, by dynamic programming. No IO.

From the leaves up, each domain has a table: at what cost it can take which numbers of members by
class. The cost is how many domains they use newly, where one of a higher layer costs more than all
below it. Unless numbers have to be multiples, a domain that can take some can take fewer, so that
only the most that it takes at each cost has to be looked at.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from koord_scheduler.plugins.coscheduling.network.greedy_fill import LeafCounts
from koord_scheduler.plugins.coscheduling.network.problem import Counts, GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain
from koord_scheduler.state.arrays import Codes

Costs = NDArray[np.int64]
IMPOSSIBLE = 1 << 60
MOST_WORK = 20_000_000
"""About nanoseconds."""


class _Part(Protocol):
    """Capacity of a domain: ``counts`` by entry and class, none of it first, with costs."""

    counts: Codes
    costs: Costs

    def share(self, counts: Counts, found: LeafCounts) -> None:
        """Say which leaves take so many members."""
        ...


def work(problem: GatherProblem, domain: Domain) -> int:
    """Estimate the nanoseconds that ``exact_fill`` takes."""
    if (problem.total + 1.0) ** (problem.last - domain.layer) >= IMPOSSIBLE:
        return 1 << 62
    cells = math.prod(number + 1 for number in problem.counts)
    is_simple = len(problem.counts) == 1 and problem.is_free
    first, end = problem.tree.leaves(domain)
    parts, entries, most = 0, 0.0, np.array(problem.counts)[:, None]
    for layer in range(domain.layer + 1, problem.last + (not is_simple)):
        begin, stop = np.searchsorted(problem.tree.starts[layer], [first, end])
        slots = np.minimum(problem.slots_in[layer][:, begin:stop], most)
        parts += int(stop - begin)
        entries += float(np.minimum((slots + 1.0).prod(axis=0), cells).sum())
    return int(60_000 * parts + 3 * entries * cells)


def exact_fill(problem: GatherProblem, domain: Domain) -> LeafCounts | None:
    """All members in a domain, in the fewest parts of each layer; ``None``: they do not fit."""
    part, found = _part(problem, domain), list[tuple[int, Counts]]()
    if not (part.counts == problem.counts).all(axis=1).any():
        return None
    part.share(problem.counts, found)
    return found


def _part(problem: GatherProblem, domain: Domain) -> _Part:
    height = problem.last - domain.layer
    is_new = not problem.bound_in[domain.layer][domain.place]
    cost = (problem.total + 1) ** height if is_new else 0
    if not height:
        return _Leaf(problem, domain.place, cost)
    if height == 1 and len(problem.counts) == 1 and problem.is_free:
        return _Leaves(problem, domain, cost)
    return _Parts(problem, domain, cost)


class _Leaf:
    """A single node."""

    def __init__(self, problem: GatherProblem, leaf: int, cost: int) -> None:
        self._leaf = leaf
        found = problem.combinations(leaf)
        self.counts: Codes = np.vstack([np.zeros_like(found, shape=(1, found.shape[1])), found])
        self.costs: Costs = np.append([0], np.full(len(found), cost))

    def share(self, counts: Counts, found: LeafCounts) -> None:
        found.append((self._leaf, counts))


class _Leaves:
    """The nodes of a domain, for pods of one class: those with the most slots come first."""

    def __init__(self, problem: GatherProblem, domain: Domain, cost: int) -> None:
        first, end = problem.tree.leaves(domain)
        slots, bound = problem.slots[0, first:end], problem.bound[first:end]
        order = np.lexsort((-slots, bound == 0))
        order = order[slots[order] > 0]
        takes = np.minimum(np.cumsum(slots[order]), problem.total)
        nodes = np.cumsum(bound[order] == 0)
        self._leaves, self._slots = (order + first).tolist(), slots[order].tolist()
        self.counts: Codes = np.append([0], takes)[:, None]
        self.costs: Costs = np.append([0], nodes + cost)

    def share(self, counts: Counts, found: LeafCounts) -> None:
        (remaining,) = counts
        for leaf, slots in zip(self._leaves, self._slots, strict=True):
            taken = min(slots, remaining)
            found.append((leaf, (taken,)))
            remaining -= taken
            if not remaining:
                break


class _Parts:
    """A domain with the parts that have room; ``_choices`` says which entry of each is taken."""

    def __init__(self, problem: GatherProblem, domain: Domain, cost: int) -> None:
        below = domain.layer + 1
        self._parts = [
            _part(problem, Domain(below, place))
            for place in problem.tree.children(domain)
            if problem.pods_in[below][place]
        ]
        costs = np.full([number + 1 for number in problem.counts], IMPOSSIBLE, np.int64)
        costs[(0,) * costs.ndim] = 0
        self._choices: list[Codes] = []
        for part in self._parts:
            costs, choice = _with_part(costs, part, is_free=problem.is_free)
            self._choices.append(choice)
        is_entry = costs < IMPOSSIBLE
        if problem.is_free:
            is_entry &= _is_most(costs)
        self.counts: Codes = np.argwhere(is_entry)
        if not problem.is_free:
            totals = self.counts.sum(axis=1).tolist()
            self.counts = self.counts[[problem.keeps_multiple(domain, total) for total in totals]]
        self.costs: Costs = costs[tuple(self.counts.T)]
        self.costs[self.counts.any(axis=1)] += cost

    def share(self, counts: Counts, found: LeafCounts) -> None:
        for part, choice in zip(reversed(self._parts), reversed(self._choices), strict=True):
            entry = part.counts[choice[counts]].tolist()
            taken = tuple(map(min, entry, counts))
            if any(taken):
                part.share(taken, found)
                counts = tuple(have - take for have, take in zip(counts, taken, strict=True))


def _with_part(costs: Costs, part: _Part, *, is_free: bool) -> tuple[Costs, Codes]:
    """The costs once a part may take members, too, and which of its entries it takes then."""
    before = [(size, 0) for size in costs.shape]
    if is_free:  # what is left for the others may be less than nothing
        padded = np.pad(costs, before, mode="edge")
    else:
        padded = np.pad(costs, before, constant_values=IMPOSSIBLE)
    remaining = sliding_window_view(padded, costs.shape)
    at = tuple(size - column for size, column in zip(costs.shape, part.counts.T, strict=True))
    candidates = remaining[at] + part.costs.reshape(-1, *([1] * costs.ndim))
    choice = candidates.argmin(axis=0)
    found: Costs = np.take_along_axis(candidates, choice[None], axis=0)[0]
    return np.minimum(found, IMPOSSIBLE), choice


def _is_most(costs: Costs) -> NDArray[np.bool_]:
    """True where one more of any class costs more."""
    found = np.ones(costs.shape, np.bool_)
    for axis in range(costs.ndim):
        behind = [slice(None)] * costs.ndim
        behind[axis] = slice(0, -1)
        found[tuple(behind)] &= np.diff(costs, axis=axis) > 0
    return found
