"""Choice of a domain for a gang, and of nodes in it. No IO.

In this order: the lowest layer with a domain that has room for all; there, the domain where most
pods exist already, then the one with the least room (both also of the domains above), then the
first by name; in it, the fewest domains of each layer, from the top down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, islice, permutations
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from koord_scheduler.plugins.coscheduling.network.class_fill import class_work, fill_by_class
from koord_scheduler.plugins.coscheduling.network.exact_fill import MOST_WORK, exact_fill, work
from koord_scheduler.plugins.coscheduling.network.greedy_fill import LeafCounts, greedy_fill
from koord_scheduler.plugins.coscheduling.network.problem import GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain
from koord_scheduler.state.arrays import Codes

MOST_IN_LAYER = 4
"""Plans of one layer; the pods that none of them suits need more room."""
_MOST_ORDERS = 6


class WorkBudget:
    """Work that may still be done, and if it was enough for an optimum so far."""

    def __init__(self, most_work: int) -> None:
        self.is_optimal = True
        self._left = most_work

    def affords(self, work: int) -> bool:
        """Return True if so much work may be done; if so it counts as done."""
        if work > self._left:
            return False
        self._left -= work
        return True


class GatherPlan(NamedTuple):
    """All waiting members in a domain, by leaf; ``is_optimal`` where nothing better exists."""

    domain: Domain
    leaf_counts: LeafCounts
    is_optimal: bool


def gather(problem: GatherProblem, most_work: int = MOST_WORK) -> GatherPlan | None:
    """Return the places of a gang's members; ``None``: not all fit as they need it."""
    return next(gather_plans(problem, most_work), None)


def gather_plans(problem: GatherProblem, most_work: int = MOST_WORK) -> Iterator[GatherPlan]:
    """The same, and what is next best if that will not do: a few domains of each layer."""
    if not can_be_met(problem):
        return
    budget = WorkBudget(most_work)
    for layer in range(problem.last, problem.needs.must - 1, -1):
        plans = (
            GatherPlan(domain, filled, budget.is_optimal)
            for domain in candidates(problem, layer)
            if (filled := best_fill(problem, domain, budget)) is not None
        )
        yield from islice(plans, MOST_IN_LAYER)


def can_be_met(problem: GatherProblem) -> bool:
    """True if the gang's demands on the network can be met, whatever is free."""
    needs, total = problem.needs, problem.total + int(problem.bound.sum())
    if needs.unknown or not len(problem.tree.rows):
        return False
    return not any(total % multiple for multiple in needs.multiples)


def candidates(problem: GatherProblem, layer: int) -> Iterator[Domain]:
    """The domains of a layer that seem to have room for all members, best first."""
    is_roomy = problem.rooms_in[layer] >= 1
    if len(problem.counts) > 1:
        needed = np.array(problem.counts) @ problem.requests
        usable = np.where(problem.slots.any(axis=0), problem.free, 0.0)
        is_roomy &= (problem.tree.sums(layer, usable) >= needed[:, None]).all(axis=0)
    bound = problem.bound_in[layer]
    is_roomy &= bound == bound.sum()
    for place in _in_order(problem, layer, np.flatnonzero(is_roomy)):
        yield Domain(layer, place)


def best_fill(problem: GatherProblem, domain: Domain, budget: WorkBudget) -> LeafCounts | None:
    """All members in a domain: as Koordinator fills it, unless fewer parts of it are enough."""
    fills = [greedy_fill(problem, domain)]
    if budget.affords(work(problem, domain)):
        fills.append(exact_fill(problem, domain) or [])
    else:
        budget.is_optimal = False
        if problem.is_free and len(problem.counts) > 1:
            fills += _by_class(problem, domain, budget)
            fills += [_refined(problem, domain, fill, budget) for fill in fills if fill]
    whole = [fill for fill in fills if sum(sum(counts) for _, counts in fill) == problem.total]
    return min(whole, key=lambda one: new_domains(problem, domain, one), default=None)


def _by_class(problem: GatherProblem, domain: Domain, budget: WorkBudget) -> Iterator[LeafCounts]:
    """In several orders of the classes, the scarcest first."""
    rooms = problem.slots.sum(axis=1) / np.array(problem.counts)
    scarcest_first: list[int] = np.argsort(rooms, kind="stable").tolist()
    cost = class_work(problem, domain)
    for permutation in islice(permutations(scarcest_first), _MOST_ORDERS):
        if not budget.affords(cost):
            return
        yield fill_by_class(problem, domain, permutation) or []


def _refined(
    problem: GatherProblem, domain: Domain, filled: LeafCounts, budget: WorkBudget
) -> LeafCounts:
    """The same number of members in each of the largest parts that an optimum can be found for."""
    counts = tuple(map(sum, zip(*(one for _, one in filled), strict=True)))
    part = replace(problem, counts=counts)
    if budget.affords(work(part, domain)):
        return exact_fill(part, domain) or filled
    below = domain.layer + 1
    if below == problem.last:
        return filled
    found: LeafCounts = []
    placed = sorted((problem.tree.at(below, leaf), leaf, one) for leaf, one in filled)
    for child, members in groupby(placed, itemgetter(0)):
        found += _refined(problem, child, [(leaf, member) for _, leaf, member in members], budget)
    return found


def new_domains(problem: GatherProblem, domain: Domain, filled: LeafCounts) -> tuple[int, ...]:
    """Count the domains without members that get some, by layer, below ``domain``."""
    leaves = np.array([leaf for leaf, _ in filled], np.intp)
    found = []
    for layer in range(domain.layer + 1, problem.last + 1):
        places = np.searchsorted(problem.tree.starts[layer], leaves, "right") - 1
        bound = problem.bound_in[layer]
        is_used = np.bincount(places, minlength=len(bound)) > 0
        found.append(int(np.count_nonzero(is_used & (bound == 0))))
    return tuple(found)


def _in_order(problem: GatherProblem, layer: int, places: Codes) -> list[int]:
    leaves = problem.tree.starts[layer][places]
    above = [
        (up, np.searchsorted(problem.tree.starts[up], leaves, "right") - 1)
        for up in range(layer, -1, -1)
    ]
    names = np.array([problem.tree.names[layer][place] for place in places.tolist()])
    keys = [
        *(-problem.existing_in[up][at] for up, at in above),
        *(problem.rooms_in[up][at] for up, at in above),
        names,
    ]
    found: list[int] = places[np.lexsort(keys[::-1])].tolist()
    return found
