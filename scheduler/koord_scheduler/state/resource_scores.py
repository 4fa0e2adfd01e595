"""Scores of a resource's usage: Kubernetes' scoring strategies. No IO.

Each is a function of what is taken of a resource with a pod, and of what there is, for some rows.
For one row plain numbers are ten times as fast: those that have such a form are in ``OF_ONE``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from koord_scheduler.state.arrays import Amounts

MAX_SCORE = 100.0

ResourceScore = Callable[[Amounts, Amounts], Amounts]
ScoreOfOne = Callable[[float, float], float]

MOST_OF_SHAPE = 10
"""The highest score in a shape, which says 10 where others say 100."""


def least_allocated(taken: Amounts, has: Amounts) -> Amounts:
    """Per cent that are left; 0 where there is not enough."""
    return _per_cent(np.maximum(has - taken, 0.0), has)


def least_of_both(left: Amounts, divisors: Amounts, weights: Sequence[int]) -> Amounts:
    """The mean of ``least_allocated`` of two resources, of rows that have both.

    ``left`` is what would be left of them, and is overwritten.
    """
    np.maximum(left, 0.0, out=left)
    left *= MAX_SCORE
    left /= divisors
    np.floor(left, out=left)
    first, second = weights
    mean: Amounts = left[0]
    if first == second:
        mean += left[1]
        mean *= 0.5
    else:
        mean *= first
        mean += second * left[1]
        mean /= first + second
    return np.floor(mean, out=mean)


def most_allocated(taken: Amounts, has: Amounts) -> Amounts:
    """Per cent that are taken, at most 100."""
    return _per_cent(np.minimum(taken, has), has)


def least_of_one(taken: float, has: float) -> float:
    """As ``least_allocated``."""
    return math.floor((has - taken) * MAX_SCORE / has) if has > taken else 0


def most_of_one(taken: float, has: float) -> float:
    """As ``most_allocated``."""
    return math.floor(min(taken, has) * MAX_SCORE / max(has, 1.0))


OF_ONE: Mapping[ResourceScore, ScoreOfOne] = {
    least_allocated: least_of_one,
    most_allocated: most_of_one,
}


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> ResourceScore:
    """A broken line through points: per cent that are taken, and the score there (0 to 10)."""
    return partial(_on_line, shape=[(at, score * MAX_SCORE / MOST_OF_SHAPE) for at, score in shape])


def _per_cent(part: Amounts, whole: Amounts) -> Amounts:
    """``part`` is overwritten: thousands of numbers, several times over."""
    part *= MAX_SCORE
    part /= np.maximum(whole, 1.0)
    return np.floor(part, out=part)


def _on_line(taken: Amounts, has: Amounts, shape: Sequence[tuple[float, float]]) -> Amounts:
    per_cent = most_allocated(taken, has)
    # From the last point to the first: the first one that is not exceeded counts.
    found = np.full(per_cent.shape, shape[-1][1])
    for (start, low), (end, high) in reversed(list(itertools.pairwise(shape))):
        on_it = low + np.trunc((high - low) * (per_cent - start) / (end - start))
        found = np.where(per_cent <= end, on_it, found)
    return np.where(per_cent <= shape[0][0], shape[0][1], found)


def least_taken(taken: int, has: int) -> int:
    """Per cent that are left; 0 where there is not enough."""
    return max(0, has - taken) * 100 // has


def most_taken(taken: int, has: int) -> int:
    """Per cent that are taken, at most 100."""
    return min(taken, has) * 100 // has
