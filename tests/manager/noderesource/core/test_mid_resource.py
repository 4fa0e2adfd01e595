from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.batch_resource import Numbers
from koord_manager.noderesource.core.mid_resource import UNKNOWN, MidInputs, mid

MOST = 1 << 53


@st.composite
def nodes(draw: st.DrawFn) -> MidInputs:
    number = draw(st.integers(1, 5))

    def column(low: int, high: int) -> Numbers:
        values = st.lists(st.integers(low, high), min_size=2 * number, max_size=2 * number)
        return np.array(draw(values), np.int64).reshape(number, 2)

    high = draw(st.sampled_from([10, 100_000, MOST]))
    static = draw(st.lists(st.booleans(), min_size=number, max_size=number))
    return MidInputs(
        *(column(0, high) for _ in range(4)),
        column(UNKNOWN, high),
        column(UNKNOWN, high),
        *(column(0, 100) for _ in range(3)),
        np.array(static)[:, None],
    )


@given(nodes())
def test_never_negative_nor_more_than_there_is(given: MidInputs) -> None:
    found = mid(given)
    assert (found.amount >= 0).all()
    assert (found.amount <= found.limit).all()
    assert (found.limit <= given.capacity).all()


@given(nodes(), st.integers(0, MOST), st.sampled_from(["prod_request", "system"]))
def test_never_more_when_prod_needs_more(given: MidInputs, more: int, what: str) -> None:
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
    assert mid(MidInputs(**arrays)).amount.tolist() == [[amount, amount]]
