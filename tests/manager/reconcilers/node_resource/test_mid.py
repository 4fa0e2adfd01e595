from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.reconcilers.node_resource.batch import Numbers
from koord_manager.reconcilers.node_resource.mid import UNKNOWN, MidGiven, mid

MOST = 1 << 53


@st.composite
def nodes(draw: st.DrawFn) -> MidGiven:
    number = draw(st.integers(1, 5))

    def column(low: int, high: int) -> Numbers:
        values = st.lists(st.integers(low, high), min_size=2 * number, max_size=2 * number)
        return np.array(draw(values), np.int64).reshape(number, 2)

    high = draw(st.sampled_from([10, 100_000, MOST]))
    static = draw(st.lists(st.booleans(), min_size=number, max_size=number))
    return MidGiven(
        *(column(0, high) for _ in range(4)),
        column(UNKNOWN, high),
        column(UNKNOWN, high),
        *(column(0, 100) for _ in range(3)),
        np.array(static)[:, None],
    )


def naive(given: MidGiven, node: int, resource: int) -> int:
    """The formula as the specification has it, in exact fractions."""
    columns = [int(column[node, resource]) for column in given[:-1]]
    capacity, reserved, system, prod, node_used, reclaimable, limit, unallocated, static = columns
    most = Fraction(capacity * limit, 100)
    if given.by_percentage[node, 0]:
        return int(min(Fraction(capacity * static, 100), most))
    left = max(0, capacity - max(system, reserved) - prod)
    unused = 0 if node_used == UNKNOWN else max(0, capacity - node_used)
    share = left * unallocated // 100  # whole, as Koordinator has it
    return int(min(min(max(0, reclaimable), unused) + share, most))


@given(nodes())
def test_every_node_is_reckoned_as_by_hand(given: MidGiven) -> None:
    amounts = mid(given).amount
    for node, resource in np.ndindex(amounts.shape):
        assert amounts[node, resource] == naive(given, node, resource)


@given(nodes())
def test_never_negative_nor_more_than_there_is(given: MidGiven) -> None:
    found = mid(given)
    assert (found.amount >= 0).all()
    assert (found.amount <= found.limit).all()
    assert (found.limit <= given.capacity).all()


@given(nodes(), st.integers(0, MOST), st.sampled_from(["prod_request", "system"]))
def test_never_more_when_prod_needs_more(given: MidGiven, more: int, what: str) -> None:
    busier = given._replace(**{what: getattr(given, what) + more})
    assert (mid(busier).amount <= mid(given).amount).all()


@pytest.mark.parametrize(
    ("given", "amount"),
    [
        ({}, 3000),
        ({"node_used": 8000}, 2000),
        ({"node_used": UNKNOWN}, 0),
        ({"reclaimable": UNKNOWN}, 0),
        ({"unallocated": 50}, 5250),
        ({"unallocated": 50, "system": 2000}, 5000),
        ({"limit": 20}, 2000),
        ({"static": 40, "by_percentage": True}, 4000),
        ({"static": 40, "limit": 30, "by_percentage": True, "reclaimable": UNKNOWN}, 3000),
    ],
)
def test_by_hand(given: dict[str, Any], amount: int) -> None:
    columns = {
        "capacity": 10_000,
        "reserved": 1500,
        "system": 100,
        "prod_request": 4000,
        "node_used": 5000,
        "reclaimable": 3000,
        "limit": 100,
        "unallocated": 0,
        "static": 0,
        "by_percentage": False,
    } | given
    arrays = {name: np.array([[one, one]]) for name, one in columns.items()}
    assert mid(MidGiven(**arrays)).amount.tolist() == [[amount, amount]]
