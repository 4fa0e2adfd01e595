"""However long an outage was, all are back soon after it, and nobody is back too early."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.retry_schedule import RequestRetry, RetrySchedule, RetryTiming

TIMING = RetryTiming()
PACE = ReflectorTiming()
SEEDS = st.integers(0, 1 << 32)
BACK_WITHIN = TIMING.probe + TIMING.spread
Answers = Callable[[str, float], tuple[int, float]]
"""What a kind is answered at a time: an HTTP status (0: no answer), and a Retry-After."""


@dataclass
class Kind:
    """A kind that is listed, watched while that works, and backs off as an informer does."""

    name: str
    retry: RequestRetry = field(default_factory=RequestRetry)
    failures: int = 0
    tries: list[float] = field(default_factory=list)
    successes: list[float] = field(default_factory=list)


def simulate(names: Sequence[str], answers: Answers, until: float, seed: int) -> dict[str, Kind]:
    """All try at the beginning; one that succeeds tries again after a second."""
    chance = random.Random(seed)
    schedule = RetrySchedule(chance.random, TIMING)
    kinds = {name: Kind(name) for name in names}
    for kind in kinds.values():
        kind.retry.due = chance.random()
    while (kind := min(kinds.values(), key=lambda one: one.retry.due)).retry.due < until:
        now = kind.retry.due
        schedule.left(kind.retry, now)
        kind.tries.append(now)
        status, retry_after = answers(kind.name, now)
        if status == 200:
            kind.successes.append(now)
            kind.failures, kind.retry = 0, RequestRetry(due=now + 1)
            schedule.succeeded(now)
            continue
        kind.failures += 1
        bound = min(PACE.cap, PACE.first * 2.0 ** (kind.failures - 1))
        schedule.failed(
            kind.retry,
            now,
            retry_after + chance.random() * bound,
            retry_after=retry_after,
            was_answered=400 <= status < 500,
        )
    return kinds


@given(
    kinds=st.integers(1, 12),
    begins=st.floats(0, 5),
    lasts=st.floats(0.1, 300),
    refused=st.sampled_from([0, 500, 503]),
    seed=SEEDS,
)
def test_all_are_back_soon_after_an_outage(
    kinds: int, begins: float, lasts: float, refused: int, seed: int
) -> None:
    ends = begins + lasts
    names = [f"kind-{number}" for number in range(kinds)]
    ran = simulate(
        names,
        lambda _, now: (refused if begins <= now < ends else 200, 0.0),
        ends + BACK_WITHIN + 1,
        seed,
    )
    for kind in ran.values():
        back = [at for at in kind.successes if at >= ends]
        assert back[0] <= ends + BACK_WITHIN + 1  # a second where it was not waiting


@given(st.integers(2, 12), SEEDS)
def test_they_do_not_come_back_in_one_moment(kinds: int, seed: int) -> None:
    names = [f"kind-{number}" for number in range(kinds)]
    ran = simulate(names, lambda _, now: (0 if now < 100 else 200, 0.0), 104, seed)
    back = sorted(next(at for at in kind.successes if at >= 100) for kind in ran.values())
    assert len({round(at, 9) for at in back}) == kinds
    # The first has succeeded before the others are sent.
    assert back[1] > back[0]


@given(st.floats(3, 60), SEEDS)
def test_a_retry_after_stands_whoever_succeeds(seconds: float, seed: int) -> None:
    ran = simulate(
        ["asked to wait", "well", "also well"],
        lambda name, _: (429, seconds) if name == "asked to wait" else (200, 0.0),
        300,
        seed,
    )
    tries = ran["asked to wait"].tries
    assert all(later - one >= seconds - 1e-6 for one, later in pairwise(tries))


@pytest.mark.parametrize("status", [0, 403, 404, 500])
@given(seed=SEEDS)
def test_one_that_fails_alone_backs_off_as_ever(status: int, seed: int) -> None:
    """While others succeed each second, it is tried no more often than its own backoff allows."""
    ran = simulate(
        ["fails", "well", "also well"],
        lambda name, _: (status if name == "fails" else 200, 0.0),
        900,
        seed,
    )
    tries = ran["fails"].tries
    # With full jitter half of the cap on average, once the doubling has come to an end.
    assert len(tries) < 10 + 2 * 900 / PACE.cap * 1.5


@given(st.integers(1, 12), SEEDS)
def test_an_outage_is_not_filled_with_tries(kinds: int, seed: int) -> None:
    names = [f"kind-{number}" for number in range(kinds)]
    ran = simulate(names, lambda *_: (0, 0.0), 300, seed)
    tries = sum(len(kind.tries) for kind in ran.values())
    own = kinds * (10 + 2 * 300 / PACE.cap * 1.5)
    assert tries <= own + 300 / (TIMING.probe / 2)


# ---- the rules, one by one


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_a_success_brings_all_forward_that_wait_within_the_spread(chance: float) -> None:
    schedule = RetrySchedule(lambda: chance, TIMING)
    first, other = RequestRetry(), RequestRetry()
    assert schedule.failed(first, 10.0, 100.0), "one goes soon, so that the end is noticed"
    assert first.due == 10 + TIMING.probe * (1 + chance) / 2
    assert not schedule.failed(other, 10.0, 100.0)
    assert other.due == 110.0
    assert set(schedule.succeeded(10.2)) == {first, other}
    assert first.due == other.due == 10.2 + TIMING.spread * chance
    assert not schedule.succeeded(10.3)


def test_another_goes_soon_where_one_leaves() -> None:
    schedule = RetrySchedule(lambda: 0.0, TIMING)
    first, other = RequestRetry(), RequestRetry()
    schedule.failed(first, 0.0, 100.0)
    schedule.failed(other, 0.0, 100.0)
    assert schedule.left(first, 5.0)
    assert other.due == 5 + TIMING.probe / 2
    assert not schedule.left(other, 5.0)


@pytest.mark.parametrize("answered", [True, False])
def test_one_that_fails_alone_is_left_alone_twice_as_long_each_time(answered: bool) -> None:
    schedule, retry = RetrySchedule(lambda: 0.0, TIMING), RequestRetry()
    schedule.failed(retry, 0.0, 0.0)
    assert (retry.answered, retry.not_before) == (0, 0.0)
    for failures in range(1, 8):
        now = 100.0 * failures
        if not answered:
            schedule.succeeded(now)
        schedule.failed(retry, now, 0.0, was_answered=answered)
        assert retry.not_before == now + min(TIMING.cap, TIMING.first * 2**failures)
