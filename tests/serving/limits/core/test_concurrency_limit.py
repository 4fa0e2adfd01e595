from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from koord_serving.limits.core.concurrency_limit import ConcurrencyLimit


@given(
    total=st.integers(0, 5),
    each=st.integers(0, 3),
    steps=st.lists(st.tuples(st.booleans(), st.sampled_from("abc"))),
)
def test_places_are_taken_while_there_are_any(
    total: int, each: int, steps: list[tuple[bool, str]]
) -> None:
    limit, there = ConcurrencyLimit(total, each), Counter[str]()
    for enters, caller in steps:
        if enters:
            fits = there.total() < total and there[caller] < each
            assert limit.enter(caller) is fits
            there[caller] += fits
        elif there[caller]:
            limit.leave(caller)
            there[caller] -= 1
    assert limit.taken == there.total()
    # Callers that are gone are not kept.
    assert set(limit._callers) == set(+there)
