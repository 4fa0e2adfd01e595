"""Settings of a pool of nodes, complete. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from koord_model.label_selector import LabelSelector

Thresholds = Mapping[str, float]


class AnomalyCondition(NamedTuple):
    """Rounds in a row after which a high load is an anomaly, and after which it is not any more.

    An anomaly ends by itself after ``timeout`` seconds. With 1 for ``abnormalities`` every high
    load is one.
    """

    timeout: float
    abnormalities: int
    normalities: int


@dataclass(frozen=True)
class PoolSettings:
    """Thresholds of a pool, in per cent by resource, of nodes and of their production pods.

    In deviation mode they are distances from the mean of the pool. What has no low threshold has
    no high one.
    """

    name: str
    selector: LabelSelector
    uses_deviation: bool
    low: Thresholds
    high: Thresholds
    prod_low: Thresholds
    prod_high: Thresholds
    weights: Mapping[str, int]
    anomaly: AnomalyCondition
    whole: tuple[str, ...] = ()
    """Resources that have 100 % for a threshold where they have no other."""

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Those with a threshold, sorted."""
        names = {*self.whole, *self.low, *self.high, *self.prod_low, *self.prod_high}
        return tuple(sorted(names))

    @property
    def has_prod(self) -> bool:
        """True if production pods have thresholds of their own."""
        return bool(self.prod_low)
