"""A ring holds what a plain dictionary of the newest stretches would, and gives pages back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.metric_cache.core.page_ring import NUMBERS, PAGE_BYTES, PagePool, Ring

ROWS, TURNS = 3, 2
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 250), st.integers(0, ROWS - 1)),
        st.tuples(st.just("forget"), st.integers(0, 250), st.just(0)),
        st.tuples(st.just("clear"), st.just(0), st.integers(0, ROWS - 1)),
        st.tuples(st.just("drop oldest"), st.just(0), st.just(0)),
    ),
    max_size=20,
)


@pytest.mark.parametrize("fields", [1, 4])
@given(steps=STEPS)
def test_it_is_as_a_plain_one(fields: int, steps: list[tuple[str, int, int]]) -> None:
    pool = PagePool(ROWS * TURNS)
    ring, span = Ring(pool, ROWS, TURNS, fields), NUMBERS // fields
    plain: dict[tuple[int, int], float] = {}
    held: set[int] = set()
    newest = -1
    for number, (what, slot, row) in enumerate(steps, 1):
        stretch = slot // span
        if what == "write" and stretch > newest - TURNS:
            newest = max(newest, stretch)
            ring.turn(stretch)
            held = {one for one in held if one > newest - TURNS} | {stretch}
            plain = {at: one for at, one in plain.items() if at[0] // span in held}
            numbers = np.full((1, fields), number, np.float32)
            assert ring.write(slot, np.array([row]), numbers).all()
            plain[slot, row] = number
        elif what == "forget":
            ring.forget_from(slot)
            newest = min(newest, stretch)
            held = {one for one in held if one <= stretch}
            plain = {at: one for at, one in plain.items() if at[0] < slot}
        elif what == "clear":
            ring.clear(np.array([row]))
            plain = {at: one for at, one in plain.items() if at[1] != row}
        elif what == "drop oldest" and held:
            ring.drop_oldest()
            held.discard(min(held))
            plain = {at: one for at, one in plain.items() if at[0] // span in held}
        assert ring.stretches() == sorted(held)
        assert ring.oldest == min(held, default=None)
        assert ring.newest == newest
        assert pool.room == ROWS * TURNS - ring.pages
        assert PAGE_BYTES <= pool.touched_bytes <= (1 + ROWS * TURNS) * PAGE_BYTES
        slots, found = ring.read(np.arange(ROWS), 0, 1000)
        there = {
            (int(slots[at]), row): float(found[0, row, at])
            for row, at in zip(*(~np.isnan(found[0])).nonzero(), strict=True)
        }
        assert there == plain
        assert all(np.array_equal(one, found[0], equal_nan=True) for one in found)
    assert pool.touched_bytes % PAGE_BYTES == 0
