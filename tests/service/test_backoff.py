"""How long a plugin waits before it tries again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from koord_service.backoff import Backoff


def test_doubles_up_to_the_cap():
    backoff = Backoff(1.0, 30.0, chance=lambda: 1.0)
    assert [backoff.next() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_begins_anew_when_it_worked():
    backoff = Backoff(1.0, 30.0, chance=lambda: 1.0)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 1


@given(st.floats(0, 1), st.integers(0, 12))
def test_chance_cuts_at_most_half(chance, times):
    backoff = Backoff(0.5, 10.0, chance=lambda: chance)
    for _ in range(times):
        backoff.next()
    whole = min(10.0, 0.5 * 2**times)
    assert whole / 2 <= backoff.next() <= whole
