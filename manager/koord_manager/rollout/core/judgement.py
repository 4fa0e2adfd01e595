"""Comparison of canaries with nodes like them: harm that halts a rollout, and what it gains. No IO.

A pair's difference is what the canary had more than its like in the same hours. Each pair counts
alike, whatever its hours.

1. **Harm**: the mean difference of a measure is beyond its bound, and surely not by chance: from
   six pairs on, 99 % of 1,000 means of pairs drawn anew (bootstrap) are above 0; of fewer pairs
   each is beyond the bound, or, of what is counted, the canaries have more of all events than 99 of
   100 throws of a coin would give them. Too strict costs little: a halt takes nothing back, and is
   lifted by one command. Too lenient lets harm spread.
2. **Gain**: the mean difference with the interval in which 95 % of such means are, from six pairs
   on: fewer cannot have an interval of 95 % by a sign test either (2 × 0.5^5 = 6 %).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koord_manager.rollout.core.documents import PairSums
from koord_manager.slo_config.core.reach import Bounds

LEAST_HOURS = 1 / 6
"""Of a pair that counts: less says more of the moment than of the settings."""
LEAST_PAIRS = 6
_MEANS = 1000
_SEED = 34


class Measure(StrEnum):
    """A measure that is compared."""

    PSI = "psi"
    SCHED_WAIT = "schedWait"
    EVICTIONS = "evictions"
    RESTARTS = "restarts"
    BATCH_CORES = "batchCores"


UNITS: Mapping[Measure, str] = {
    Measure.PSI: "% of the time that services wait",
    Measure.SCHED_WAIT: "ms that services wait for a second of CPU",
    Measure.EVICTIONS: "evictions per node and hour",
    Measure.RESTARTS: "restarts per node and hour",
    Measure.BATCH_CORES: "cores that batch pods use, per node",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """Means over pairs, and the interval of their difference; ``None`` without enough pairs."""

    pairs: int
    hours: float
    with_entry: float
    without: float
    interval: tuple[float, float] | None

    @property
    def mean(self) -> float:
        """Excess of canaries over nodes like them."""
        return self.with_entry - self.without


def harm(pairs: Sequence[PairSums], bounds: Bounds) -> str:
    """The reason to halt a rollout, in a line; "" if there is none."""
    limits = {
        Measure.PSI: bounds.psi,
        Measure.SCHED_WAIT: bounds.sched_wait,
        Measure.EVICTIONS: bounds.evictions,
        Measure.RESTARTS: bounds.restarts,
    }
    for measure, bound in limits.items():
        mine, theirs = _rates(pairs, measure)
        more = mine - theirs
        if not len(more) or more.mean() <= bound:
            continue
        if _is_certain(pairs, measure, more, bound):
            return (
                f"{mine.mean():.4g} {UNITS[measure]}, and {theirs.mean():.4g} on nodes like these: "
                f"more than {bound} above ({len(more)} pairs)"
            )
    return ""


def _is_certain(
    pairs: Sequence[PairSums], measure: Measure, more: NDArray[np.float64], bound: float
) -> bool:
    if len(more) >= LEAST_PAIRS:
        return bool(np.quantile(_means(more), 0.01) > 0)
    if measure not in _COUNTED:
        return bool(min(more) > bound)
    counting = _counting(pairs, measure)
    mine = sum(pair.with_entry.get(measure, 0.0) for pair in counting)
    every = mine + sum(pair.without.get(measure, 0.0) for pair in counting)
    # The binomial distribution of a half by the normal one, with its correction for whole numbers.
    return mine - 0.5 > every / 2 + _ONE_IN_100 * math.sqrt(every) / 2


def differences(pairs: Sequence[PairSums]) -> dict[Measure, Difference]:
    """By measure; those that no pair has are left out."""
    found: dict[Measure, Difference] = {}
    for measure in Measure:
        mine, theirs = _rates(pairs, measure)
        if not len(mine):
            continue
        hours = sum(pair.hours.get(measure, 0.0) for pair in _counting(pairs, measure))
        interval = None
        if len(mine) >= LEAST_PAIRS:
            low, high = np.quantile(_means(mine - theirs), (0.025, 0.975))
            interval = float(low), float(high)
        found[measure] = Difference(
            len(mine), hours, float(mine.mean()), float(theirs.mean()), interval
        )
    return found


def report(pairs: Sequence[PairSums]) -> dict[str, Any]:
    """For people, and as JSON: each difference, and whether the entry pays."""
    found = differences(pairs)
    return {
        "verdict": verdict(found),
        "measures": {
            measure.value: {
                "unit": UNITS[measure],
                "pairs": difference.pairs,
                "hours": round(difference.hours, 2),
                "with": round(difference.with_entry, 4),
                "without": round(difference.without, 4),
                "difference": round(difference.mean, 4),
                "interval95": difference.interval
                and [round(end, 4) for end in difference.interval],
            }
            for measure, difference in found.items()
        },
    }


def verdict(found: Mapping[Measure, Difference]) -> str:
    """A line about whether an entry pays."""
    known = {name: one.interval for name, one in found.items() if one.interval is not None}
    if not known:
        return (
            f"not enough data: at least {LEAST_PAIRS} pairs of nodes with "
            f"{LEAST_HOURS * 60:.0f} minutes in common are needed"
        )
    worse = [name.value for name, (low, _) in known.items() if name != _GAIN and low > 0]
    gained = known.get(_GAIN)
    if gained is None:
        return "not enough data: what batch pods use is not known"
    if gained[0] > 0:
        gain = found[_GAIN]
        hours = f"{gain.mean:.4g} core-hours of batch pods gained per node and hour"
        return f"{hours}, at the price of {', '.join(worse)}" if worse else f"pays: {hours}"
    nothing = "no gain of batch pods is certain" if gained[1] >= 0 else "batch pods have lost"
    better = [name.value for name, (_, high) in known.items() if name != _GAIN and high < 0]
    if worse:
        return f"does not pay: {nothing}, and more {', '.join(worse)}"
    return f"{nothing}, but less {', '.join(better)}" if better else f"not shown to pay: {nothing}"


_GAIN = Measure.BATCH_CORES
_COUNTED = (Measure.EVICTIONS, Measure.RESTARTS)
_ONE_IN_100 = 2.326
"""Standard deviations above the mean."""


def _counting(pairs: Iterable[PairSums], measure: Measure) -> list[PairSums]:
    return [pair for pair in pairs if pair.hours.get(measure, 0.0) >= LEAST_HOURS]


def _rates(
    pairs: Iterable[PairSums], measure: Measure
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    counting = _counting(pairs, measure)
    hours = np.array([pair.hours[measure] for pair in counting], dtype=np.float64)
    mine = np.array([pair.with_entry.get(measure, 0.0) for pair in counting], dtype=np.float64)
    theirs = np.array([pair.without.get(measure, 0.0) for pair in counting], dtype=np.float64)
    return mine / hours, theirs / hours


def _means(more: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of pairs drawn anew; the same ones each time, so that a report can be repeated."""
    drawn = np.random.default_rng(_SEED).integers(0, len(more), (_MEANS, len(more)))
    found: NDArray[np.float64] = more[drawn].mean(axis=1)
    return found
