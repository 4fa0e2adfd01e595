"""CPU shares of cgroup v1 as weights of v2: the formulas there are, and which one is in use here.

The kubelet spreads 2 to 262144 shares evenly over 1 to 10000. So did runc before 1.3.2 and
crun before 1.23; since then they use a curve on which 1024 shares, v1's default, are 100,
v2's. Of a weight that was made from the same shares either formula may be right.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

LEAST_SHARES, MOST_SHARES = 2, 262144
_MOST_WEIGHT = 10_000
_UNSET_WEIGHT = 100
"""The weight of a group by default."""


class WeightFormula(StrEnum):
    """Formula from shares to a weight."""

    LINEAR = "linear"
    QUADRATIC = "quadratic"  # the logarithm of the weight, in that of the shares

    def weight(self, shares: int) -> int:
        """The weight of these shares."""
        shares = min(max(shares, LEAST_SHARES), MOST_SHARES)
        return _linear(shares) if self is WeightFormula.LINEAR else _quadratic(shares)

    def shares(self, weight: int) -> int:
        """The least shares that give this weight; an idle group's, 0, are the least there are."""
        return _least_shares(self, min(max(weight, 1), _MOST_WEIGHT))


def _linear(shares: int) -> int:
    span = MOST_SHARES - LEAST_SHARES
    return 1 + (shares - LEAST_SHARES) * (_MOST_WEIGHT - 1) // span


def _quadratic(shares: int) -> int:
    if shares in (LEAST_SHARES, MOST_SHARES):
        # No matter of rounding.
        return 1 if shares == LEAST_SHARES else _MOST_WEIGHT
    bits = math.log2(shares)
    exponent = (bits * bits + 125 * bits) / 612 - 7 / 34
    return math.ceil(10**exponent)


@lru_cache(maxsize=4096)
def _least_shares(formula: WeightFormula, weight: int) -> int:
    every = range(LEAST_SHARES, MOST_SHARES + 1)
    return every[bisect_left(every, weight, key=formula.weight)]


class Evidence(NamedTuple):
    """A container by which a formula is known; ``made`` grows with each that is made."""

    formula: WeightFormula
    group: str
    shares: int
    weight: int
    made: int


class RuntimeWeights:
    """The formula of this node's container runtime for weights, once that is known.

    What the youngest container says counts: a runtime that was replaced made the others.
    So the same containers say the same, in whatever order they are read.
    """

    def __init__(self) -> None:
        self.evidence: Evidence | None = None

    @property
    def formula(self) -> WeightFormula | None:
        """The formula; ``None`` until a container has shown it."""
        return None if self.evidence is None else self.evidence.formula

    def learn(self, group: str, shares: int, weight: int, made: int) -> None:
        """A container that was made with these shares has this weight."""
        found = [formula for formula in WeightFormula if formula.weight(shares) == weight]
        known = self.evidence
        if len(found) != 1 or weight == _UNSET_WEIGHT or (known and known.made > made):
            return
        self.evidence = Evidence(found[0], group, shares, weight, made)
