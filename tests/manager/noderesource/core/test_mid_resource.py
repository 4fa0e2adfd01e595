from __future__ import annotations

import numpy as np
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
