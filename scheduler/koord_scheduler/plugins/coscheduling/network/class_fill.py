"""Placing the classes of a gang one after the other, each as well as possible. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from koord_scheduler.plugins.coscheduling.network.exact_fill import exact_fill, work
from koord_scheduler.plugins.coscheduling.network.greedy_fill import LeafCounts
from koord_scheduler.plugins.coscheduling.network.problem import GatherProblem
from koord_scheduler.plugins.coscheduling.network.tree import Domain
from koord_scheduler.state.arrays import Codes


def fill_by_class(
    problem: GatherProblem, domain: Domain, order: Sequence[int]
) -> LeafCounts | None:
    """All members in a domain; ``None``: in this order of classes they do not fit.

    Domains that members of one class use cost nothing to the next class.
    """
    placed: Codes = np.zeros(problem.slots.shape, np.intp)
    for one in order:
        filled = exact_fill(_of_class(problem, one, placed), domain)
        if filled is None:
            return None
        for leaf, (number,) in filled:
            placed[one, leaf] = number
    used = np.flatnonzero(placed.any(axis=0)).tolist()
    return [(leaf, tuple(placed[:, leaf].tolist())) for leaf in used]


def class_work(problem: GatherProblem, domain: Domain) -> int:
    """Estimate the nanoseconds that ``fill_by_class`` takes."""
    nothing: Codes = np.zeros(problem.slots.shape, np.intp)
    classes = range(len(problem.counts))
    return sum(work(_of_class(problem, pod_class, nothing), domain) for pod_class in classes)


def _of_class(problem: GatherProblem, one: int, placed: Codes) -> GatherProblem:
    """Return the problem of one class beside those that are placed."""
    needs = problem.requests[one]
    free = problem.free - problem.requests.T @ placed
    asked = np.flatnonzero(needs)
    fits = np.floor(free[asked] / needs[asked, None]).min(axis=0, initial=np.inf)
    slots = np.minimum(problem.slots[one], np.maximum(fits, 0)).astype(np.intp)
    return replace(
        problem,
        counts=(problem.counts[one],),
        slots=slots[None],
        requests=needs[None],
        free=free,
        bound=problem.bound + placed.sum(axis=0),
    )
