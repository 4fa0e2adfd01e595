from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.core.token_bucket import TokenBucket


@pytest.mark.parametrize(
    ("bucket", "at", "waits"),
    [
        pytest.param(TokenBucket(20, 3), [100] * 5, [0, 0, 0, 0.05, 0.1], id="burst, then rate"),
        pytest.param(TokenBucket(10, 1), [0, 0, 0.2, 0.2], [0, 0.1, 0, 0.1], id="waits count once"),
        pytest.param(TokenBucket(10, 2), [1e6] * 3, [0, 0, 0.1], id="unused does not add up"),
        pytest.param(TokenBucket(10, 1), [5, 4], [0, 0.1], id="clock goes back"),
    ],
)
def test_waits(bucket: TokenBucket, at: list[float], waits: list[float]) -> None:
    assert [bucket.take(now) for now in at] == pytest.approx(waits)


def test_who_does_not_wait_takes_no_turn() -> None:
    bucket = TokenBucket(qps=0.1, burst=2)
    allowed = [bucket.allow(at) for at in (1.0, 1.0, 1.0, 10.9, 11.1, 11.2)]
    assert allowed == [True, True, False, False, True, False]


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
