"""Movement of amounts from offered to calculated, for many nodes at once. No IO.

An amount that rises slowly harms nobody. One that falls slowly leaves batch pods with what
production needs already: a fall is at once, unless the configuration bounds it. A bounded fall
still never leaves more than ``ceiling``, which is what there is without any pod: capacity that
is lost, reserved or limited by the configuration is gone at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koord_manager.noderesource.core.batch_resource import Numbers

NONE = -1
"""The level of what is not offered."""

Times = NDArray[np.float64]


class StepBounds(NamedTuple):
    """Percent of the capacity in one step of ``seconds``; 0 means unbounded."""

    fall: Numbers
    rise: Numbers
    step: Times


class SmoothedLevels(NamedTuple):
    """The levels now, and when each moved last."""

    level: Numbers
    at: Times


def move(
    target: Numbers,
    before: SmoothedLevels,
    ceiling: Numbers,
    capacity: Numbers,
    bounds: StepBounds,
    now: float,
) -> SmoothedLevels:
    """One step towards the target, at most one in ``bounds.step`` seconds where it is bounded.

    What is not offered yet is at once what was calculated.
    """
    level = before.level
    due = now - before.at >= bounds.step
    up = _most(capacity, bounds.rise, due)
    down = _most(capacity, bounds.fall, due)
    towards = np.clip(target, level - down, level + up)
    new = np.minimum(np.where(level == NONE, target, towards), ceiling)
    return SmoothedLevels(new, np.where(new != level, now, before.at))


def _most(capacity: Numbers, percent: Numbers, due: NDArray[np.bool_]) -> Numbers:
    """Return the largest step of a level now; at least one, so that it arrives."""
    bounded = np.where(due, np.maximum(capacity * percent // 100, 1), 0)
    return np.where(percent > 0, bounded, _ANY)


_ANY = np.int64(1 << 60)
