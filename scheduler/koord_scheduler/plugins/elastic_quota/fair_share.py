"""Sharing of an amount of one resource between quotas with one parent. No IO.

1. Who asks for no more than its floor (its min) has what it asks for; or its whole floor, if it
   does not lend. Everybody else has its floor.
2. What is left is split among those who ask for more, by their weights: whole parts are rounded
   down, and the largest remainders get one more each; of equal ones the first.
3. Who has more than it asks for gives the rest back, which is split among the others as in 2.

Weights times amounts exceed 64 bits for memory; every result is exact all the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_EXACT_BITS = 62
"""Sums and products below 2 to the power of this are exact in int64."""
_FLOAT_BITS = 51
"""A float quotient below 2 to the power of this is off by less than one."""


class SiblingClaims(NamedTuple):
    """Of each quota what it asks for, its floor and weight, and whether it lends its floor."""

    request: Integers
    floor: Integers
    weight: Integers
    lends: Booleans


def fair_share(total: int, claims: SiblingClaims) -> Integers:
    """Return each quota's part of ``total``; quotas are in the order of their names."""
    request, floor, weight, lends = claims
    wants = request > floor
    runtime: Integers = np.where(wants | ~lends, floor, request)
    left = total - exact_sum(runtime)
    (places,) = (wants & (weight > 0)).nonzero()
    while left > 0 and len(places):
        missing = request[places] - runtime[places]
        if left >= exact_sum(missing):
            runtime[places] = request[places]
            break
        parts = split(left, weight[places])
        is_satisfied = parts >= missing
        runtime[places] += np.minimum(parts, missing)
        left = exact_sum(parts[is_satisfied] - missing[is_satisfied])
        places = places[~is_satisfied]
    return runtime


def split(total: int, weights: Integers) -> Integers:
    """``total`` in whole parts, in proportion to weights above 0, by the largest remainder."""
    whole, remainders = _divided(total, weights)
    rest = total - exact_sum(whole)
    whole[np.argsort(-remainders, kind="stable")[:rest]] += 1
    return whole


def _divided(total: int, weights: Integers) -> tuple[Integers, Integers]:
    """Of weight · total / sum of weights the whole part, and the remainder."""
    whole_weight = exact_sum(weights)
    if (int(weights.max()) * total).bit_length() <= _EXACT_BITS:
        products = weights * np.int64(total)
        return products // whole_weight, products % whole_weight
    off_by = 2 + (total >> _FLOAT_BITS)
    if (8 * off_by * whole_weight).bit_length() > _EXACT_BITS:
        return _divided_by_numbers(total, weights.tolist(), whole_weight)
    # The quotient is nearly right; the remainder, exact in wrapping int64, says by how much not.
    whole = (weights * (total / whole_weight)).astype(np.int64)
    remainders = weights * np.int64(total) - whole * np.int64(whole_weight)
    whole += remainders // whole_weight
    return whole, remainders % whole_weight


def _divided_by_numbers(
    total: int, weights: list[int], whole_weight: int
) -> tuple[Integers, Integers]:
    found = [divmod(weight * total, whole_weight) for weight in weights]
    # Remainders may not fit into 64 bits; only their order counts.
    rank = {one: place for place, one in enumerate(sorted({one for _, one in found}))}
    whole = np.array([one for one, _ in found], np.int64)
    return whole, np.array([rank[one] for _, one in found], np.int64)


def exact_sum(amounts: Integers) -> int:
    """The sum, which may not fit into 64 bits."""
    if len(amounts) and len(amounts) * float(np.abs(amounts).max()) >= 1 << _EXACT_BITS:
        return sum(amounts.tolist())
    return int(amounts.sum())
