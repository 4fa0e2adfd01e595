"""Siblings get what a plain reading of the rules gives them, exactly, for amounts of any size."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.elastic_quota.fair_share import (
    SiblingClaims,
    exact_sum,
    fair_share,
    split,
)

SMALL = st.integers(0, 30)
LARGE = st.integers(0, 1 << 56)
EACH = st.tuples(
    st.one_of(SMALL, LARGE),
    st.one_of(SMALL, LARGE),
    st.one_of(SMALL, LARGE, st.integers(1 << 60, (1 << 63) - 1)),
    st.booleans(),
)
QUOTAS = st.lists(EACH, min_size=1, max_size=8)
TOTAL = st.one_of(st.integers(-5, 100), LARGE, st.integers(1 << 56, 1 << 60))


def shared(total: int, quotas: list[tuple[int, int, int, bool]]) -> list[int]:
    request, floor, weight, lends = zip(*quotas, strict=True)
    amounts = [np.array(one, np.int64) for one in (request, floor, weight)]
    return fair_share(total, SiblingClaims(*amounts, np.array(lends, np.bool_))).tolist()


def naive(total: int, quotas: list[tuple[int, int, int, bool]]) -> list[int]:
    """The same with numbers of any size, one quota after the other."""
    given = [
        floor if request > floor or not lends else request for request, floor, _, lends in quotas
    ]
    left = total - sum(given)
    needy = [place for place, (request, floor, *_) in enumerate(quotas) if request > floor]
    while left > 0 and any(quotas[place][2] for place in needy):
        whole = sum(quotas[place][2] for place in needy)
        parts = {place: divmod(left * quotas[place][2], whole) for place in needy}
        rest = left - sum(part for part, _ in parts.values())
        weighty = [place for place in needy if quotas[place][2]]
        first = sorted(weighty, key=lambda place: (-parts[place][1], place))[:rest]
        left = 0
        for place, (part, _) in parts.items():
            given[place] += part + (place in first)
            over = given[place] - quotas[place][0]
            if over >= 0:
                left += over
                given[place] -= over
        needy = [place for place in needy if given[place] < quotas[place][0]]
    return given


@given(TOTAL, QUOTAS)
def test_shares_are_those_of_plain_arithmetic(
    total: int, quotas: list[tuple[int, int, int, bool]]
) -> None:
    assert shared(total, quotas) == naive(total, quotas)


@given(
    st.one_of(st.integers(1, 100), st.integers(1 << 40, 1 << 55)),
    st.lists(st.integers(1 << 38, 1 << 42), min_size=1, max_size=8),
)
def test_parts_of_memory_by_weights_in_bytes_are_exact(total: int, weights: list[int]) -> None:
    """Products are beyond 64 bits, sums of weights are not."""
    parts = [divmod(total * weight, sum(weights)) for weight in weights]
    rest = total - sum(part for part, _ in parts)
    first = sorted(range(len(parts)), key=lambda place: (-parts[place][1], place))[:rest]
    expected = [part + (place in first) for place, (part, _) in enumerate(parts)]
    assert split(total, np.array(weights, np.int64)).tolist() == expected


def test_sums_beyond_64_bits_are_exact() -> None:
    for amount, number in (((1 << 63) - 1, 3), (-(1 << 62), 4), (7, 3), (0, 0)):
        assert exact_sum(np.array([amount] * number, np.int64)) == amount * number


@given(TOTAL, QUOTAS)
def test_nobody_gets_more_than_there_is_or_than_it_asks_for(
    total: int, quotas: list[tuple[int, int, int, bool]]
) -> None:
    found = shared(total, quotas)
    floors = [min(request, floor) if lends else floor for request, floor, _, lends in quotas]
    assert all(one >= floor for one, floor in zip(found, floors, strict=True))
    assert all(
        one <= max(request, 0 if lends else floor)
        for one, (request, floor, _, lends) in zip(found, quotas, strict=True)
    )
    if sum(floors) <= total:
        assert sum(found) <= total


@given(TOTAL, QUOTAS, st.data())
def test_more_weight_is_never_less(
    total: int, quotas: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(quotas) - 1))
    request, floor, weight, lends = quotas[place]
    more = min(data.draw(st.integers(weight, 4 * weight + 9)), (1 << 63) - 1)
    changed = [*quotas[:place], (request, floor, more, lends), *quotas[place + 1 :]]
    # Rounding may give the odd one to somebody else.
    rounds = len(quotas)
    assert shared(total, changed)[place] >= shared(total, quotas)[place] - rounds
