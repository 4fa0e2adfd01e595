"""Finds the antagonist of a container that runs worse: the pod whose use fits. No IO.

After the passive correlation of CPI² (Zhang et al., "CPI²: CPU performance isolation for
shared compute clusters", EuroSys 2013): times at which the victim suffered count against pods
that used the resource then (there CPU, here also memory, a disk, the network), others in favour of
them, the more so the farther they are from the limit.
Of the victim's deviations d, a suspect's use u at the same times and the limit k:

    then         mean of u where d > k, weighted by 1 - k/d
    otherwise    mean of u elsewhere, weighted by 1 - max(d, 0)/k
    correlation  (then - otherwise) / (then + otherwise)

Deviations stand for the paper's values, so that it means the same for every metric, and two
means for its sum, so that the few points at which an episode is found count as much as the
many before. It is 1 for a suspect that ran only while the victim suffered, -1 for one that
ran only while it did not, 0 for one that ran all along; 0.67 is five times as much use.
Best-effort pods are suspected first: only where none of them fits are others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koordlet.qos_manager.strategies.interference.suspicion import ContendedResource

Amounts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SuspectPods:
    """Pods by name, which are best-effort, and their use: a row a point, a column a pod."""

    names: Sequence[str]
    best_effort: NDArray[np.bool_]
    use: Amounts


class Antagonist(NamedTuple):
    """The likely antagonist, how well its use of a resource fits (0 to 1), and what that was."""

    name: str
    resource: ContendedResource
    correlation: float
    use: float


def correlations(deviations: Sequence[float], use: Amounts, limit: float) -> Amounts:
    """Correlate the use of each suspect with a victim's deviations, -1 to 1.

    0 where it used nothing, or the victim suffered always or never.
    """
    off = np.asarray(deviations, np.float64)
    suffers = off > limit
    weights = np.where(suffers, 1 - limit / np.maximum(off, limit), 1 - np.maximum(off, 0) / limit)
    suffering, others = weights * suffers, weights * ~suffers
    if suffering.sum() <= 0 or others.sum() <= 0:
        return np.zeros(use.shape[1])
    then = suffering @ use / suffering.sum()
    otherwise = others @ use / others.sum()
    both = then + otherwise
    fits: Amounts = np.divide(then - otherwise, both, out=np.zeros_like(both), where=both > 0)
    return fits


def antagonist(
    victim: str,
    deviations: Sequence[float],
    suspects: SuspectPods,
    resource: ContendedResource,
    limit: float,
    least: float,
) -> Antagonist | None:
    """The suspect whose use fits best, if that is ``least`` or more; ``None``: none stands out.

    It is not the ``victim``, and used enough of the resource on average while that suffered.
    """
    suffers = np.asarray(deviations) > limit
    if not suffers.any() or suffers.all():
        return None  # there is nothing to compare
    use = suspects.use - suspects.use.min(axis=0) if resource.grown else suspects.use
    fits = correlations(deviations, use, limit)
    used = use[suffers].mean(axis=0)
    may = (fits >= least) & (used >= resource.least)
    for some in (may & suspects.best_effort, may & ~suspects.best_effort):
        blamed = [
            Antagonist(suspects.names[place], resource, float(fits[place]), float(used[place]))
            for place in np.flatnonzero(some).tolist()
            if suspects.names[place] != victim
        ]
        if blamed:
            return min(
                blamed, key=lambda suspect: (-suspect.correlation, -suspect.use, suspect.name)
            )
    return None
