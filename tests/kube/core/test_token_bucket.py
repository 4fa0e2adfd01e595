from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.core.token_bucket import TokenBucket


def test_a_burst_and_then_one_after_the_other() -> None:
    bucket = TokenBucket(qps=20, burst=3)
    assert [bucket.take(100.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.05, 0.1])


def test_who_waited_is_not_counted_twice() -> None:
    bucket = TokenBucket(qps=10, burst=1)
    assert [bucket.take(at) for at in (0.0, 0.0, 0.2, 0.2)] == pytest.approx([0, 0.1, 0, 0.1])


def test_what_was_not_used_does_not_add_up() -> None:
    bucket = TokenBucket(qps=10, burst=2)
    assert [bucket.take(1e6) for _ in range(3)] == pytest.approx([0, 0, 0.1])


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(qps=10, burst=1)
    assert [bucket.take(at) for at in (5.0, 4.0)] == pytest.approx([0, 0.1])


def test_who_does_not_wait_takes_no_turn() -> None:
    bucket = TokenBucket(qps=0.1, burst=2)
    assert [bucket.allow(at) for at in (1.0, 1.0, 1.0, 10.9, 11.1, 11.2)] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_limits_that_let_nothing_through(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="kube-api-qps"):
        TokenBucket(qps, burst)


@given(st.lists(st.floats(0, 5), max_size=40), st.integers(1, 5))
def test_never_more_than_burst_and_rate(pauses: list[float], burst: int) -> None:
    bucket = TokenBucket(qps=2, burst=burst)
    now, went = 0.0, []
    for pause in pauses:
        now += pause
        went.append(now + bucket.take(now))
    for first, start in enumerate(went):
        for last in range(first, len(went)):
            allowed = burst + 2 * (went[last] - start) + 1e-6
            assert last - first + 1 <= allowed + 1e-6
