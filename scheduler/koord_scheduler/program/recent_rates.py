"""Rate of placements over the last minutes, from counts that only grow. No IO."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from koord_scheduler.program.explanation import Document

INTERVAL_SECONDS = 5.0
_INTERVALS = 120
"""Ten minutes."""
_LAST_MINUTE = 12


class DecisionTotals(NamedTuple):
    """Pods bound so far, and decisions that took up to ``bounds`` seconds, in ascending order.

    The last bound is infinite.
    """

    bound: int
    bounds: tuple[float, ...]
    decided: tuple[int, ...]


class _Sample(NamedTuple):
    monotonic: float
    epoch: float
    totals: DecisionTotals


class RecentRates:
    """A ring of totals, to be added every ``INTERVAL_SECONDS``."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=_INTERVALS + 1)

    def add(self, monotonic: float, epoch: float, totals: DecisionTotals) -> None:
        """The totals now."""
        self._samples.append(_Sample(monotonic, epoch, totals))

    def document(self) -> Document:
        """By interval: when it ended, pods bound a second, seconds that decisions took.

        Those are ``None`` where nothing was decided. ``minute`` is the last one as a whole.
        """
        samples = list(self._samples)
        rates = [_between(*pair) for pair in pairwise(samples)]
        whole = _between(samples[-_LAST_MINUTE - 1 :][0], samples[-1]) if samples else {}
        return {
            "times": [sample.epoch for sample in samples[1:]],
            **{name: [rate[name] for rate in rates] for name in ("bound", "p50", "p99")},
            "minute": whole,
        }


def _between(first: _Sample, last: _Sample) -> Document:
    seconds, before, after = last.monotonic - first.monotonic, first.totals, last.totals
    counts = [now - then for now, then in zip(after.decided, before.decided, strict=True)]
    return {
        "bound": (after.bound - before.bound) / seconds if seconds else 0.0,
        "p50": quantile(0.5, after.bounds, counts),
        "p99": quantile(0.99, after.bounds, counts),
    }


def quantile(part: float, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The value below which a part of those counted are; ``None`` where nothing is counted.

    ``counts`` are of values up to each bound. Between bounds as Prometheus' histogram_quantile.
    """
    if not counts or not counts[-1]:
        return None
    rank = part * counts[-1]
    place = bisect_left(counts, rank)
    if place == len(bounds) - 1:
        return bounds[-2]  # beyond the greatest bound that is a number
    lower, below = (bounds[place - 1], counts[place - 1]) if place else (0.0, 0)
    return lower + (bounds[place] - lower) * (rank - below) / (counts[place] - below)
