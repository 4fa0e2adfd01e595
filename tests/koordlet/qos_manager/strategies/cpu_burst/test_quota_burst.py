"""How far quotas grow and how they come back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koordlet.qos_manager.core.strategy import WindowStats
from koordlet.qos_manager.strategies.cpu_burst.burst_limiter import BurstTokens
from koordlet.qos_manager.strategies.cpu_burst.quota_burst import (
    BurstInputs,
    BurstQuota,
    QuotaCause,
    QuotaMove,
    burst_within,
    ceiling,
    stepped,
    within,
)
from koordlet.qos_manager.strategies.cpu_burst.share_pool import ReleasedCores, SharePool

from tests.support.views import STEADY, pod_view, stats

ASKED = CPUBurst(BurstPolicy.AUTO)
IDLE, COOLING, FULL = (SharePool(used, 10.0, 0.5) for used in (1.0, 4.7, 6.0))
UNKNOWN = SharePool(None, 10.0, 0.5)


def quota(name: str = "web", value: int = 100_000, **others: object) -> BurstQuota:
    one = pod_view(name).containers[0]
    made = BurstQuota(one, (name, one.container.id), ASKED, 0, 100_000, 100_000, value, STEADY)
    return made._replace(**others)  # type: ignore[arg-type]


def now(
    pool: SharePool = IDLE,
    throttled: dict[str, WindowStats] | None = None,
    use: dict[str, float] | None = None,
    steady: float = STEADY + 1,
    calm: float = 300.0,
) -> BurstInputs:
    return BurstInputs(
        steady,
        pool,
        pool.state,
        calm,
        {(name, f"{name}-main"): stats(cores) for name, cores in (use or {}).items()},
        {(name, f"{name}-main"): one for name, one in (throttled or {}).items()},
    )


def one_step(one: BurstQuota, at: BurstInputs) -> BurstQuota:
    [after], _ = stepped([one], at, ())
    return after


THROTTLED = {"web": stats(0.5)}


@pytest.mark.parametrize(
    ("before", "pool", "throttled", "after"),
    [
        (100_000, IDLE, 0.5, 120_000),
        (250_000, IDLE, 0.5, 300_000),
        (300_000, IDLE, 0.5, 300_000),
        (150_000, IDLE, 0.0, 150_000),
        (150_000, IDLE, None, 150_000),
        (150_000, COOLING, 0.5, 150_000),
        (150_000, UNKNOWN, 0.5, 150_000),
        (150_000, FULL, 0.5, 120_000),
        (150_000, FULL, 0.0, 120_000),
        (110_000, FULL, None, 100_000),
        (100_000, FULL, 0.5, 100_000),
    ],
)
def test_a_step(before: int, pool: SharePool, throttled: float | None, after: int) -> None:
    points = {} if throttled is None else {"web": stats(throttled)}
    found = one_step(quota(value=before), now(pool, points, {"web": 1.4}))
    assert found.quota == after


def test_a_point_of_throttling_raises_once() -> None:
    first = one_step(quota(), now(throttled=THROTTLED))
    assert (first.quota, first.cause) == (120_000, QuotaCause.THROTTLED)
    assert one_step(first, now(throttled=THROTTLED)).quota == 120_000
    newer = {"web": stats(0.5, until=THROTTLED["web"].last_at + 1)}
    assert one_step(first, now(throttled=newer)).quota == 144_000
    jumped = {"web": stats(0.5, until=THROTTLED["web"].last_at - 3600)}
    assert one_step(first, now(throttled=jumped)).quota == 144_000
    calm = quota()
    assert one_step(calm, now(throttled={"web": stats(0.0)})) is calm


def test_it_rests_while_another_limit_comes_into_force() -> None:
    resting = quota(rest_until=STEADY + 5)
    assert one_step(resting, now(throttled=THROTTLED)).quota == 100_000
    assert one_step(resting, now(throttled=THROTTLED, steady=STEADY + 5)).quota == 120_000


LIMITED = replace(ASKED, quota_period_seconds=10)


def test_without_tokens_it_comes_down_whatever_the_pool() -> None:
    empty = BurstTokens(-5.0, 2000.0, STEADY)
    one = quota(value=150_000, asked=LIMITED, tokens=empty)
    for pool in (IDLE, COOLING, FULL, UNKNOWN):
        found = one_step(one, now(pool, THROTTLED, {"web": 1.4}))
        assert (found.quota, found.cause) == (120_000, QuotaCause.TOKENS)
    assert one_step(one._replace(quota=100_000), now(throttled=THROTTLED)).quota == 100_000


def test_tokens_are_spent_by_use_of_the_quota_without_burst() -> None:
    left = BurstTokens(500.0, 2000.0, STEADY)
    scaled = quota(base=50_000, value=60_000, asked=LIMITED, tokens=left)
    found = one_step(scaled, now(COOLING, use={"web": 1.0}))
    assert found.tokens == BurstTokens(400.0, 2000.0, STEADY + 1)
    unlimited = one_step(found._replace(asked=ASKED), now(COOLING, use={"web": 1.0}))
    assert unlimited.tokens is None


def test_what_was_not_needed_for_long_comes_down() -> None:
    one = quota(value=150_000)
    calm = {"web": 0.3}
    assert one_step(one, now(use=calm, steady=STEADY + 299)).quota == 150_000
    found = one_step(one, now(use=calm, steady=STEADY + 300))
    assert (found.quota, found.cause) == (120_000, QuotaCause.CALM)
    again = one_step(found, now(use=calm, steady=STEADY + 301))
    assert again.quota == 100_000
    for busy in (now(use={"web": 0.6}, steady=STEADY + 300), now(steady=STEADY + 300)):
        assert one_step(one, busy).quota == 150_000
        assert one_step(one, busy).busy_at == STEADY + 300
    assert one_step(one, now(use=calm, steady=STEADY + 9999, calm=0.0)).quota == 150_000


def test_at_the_threshold_only_the_greediest_comes_down() -> None:
    names = [f"p{n:02}" for n in range(20)]
    many = [quota(name, 200_000) for name in names]
    use = dict.fromkeys(names, 1.1) | {"p07": 2.0, "p11": 1.9}
    slightly = SharePool(5.05, 10.0, 0.5)
    after, released = stepped(many, now(slightly, use=use), ())
    assert [one.key[0] for one in after if one.quota < 200_000] == ["p07"]
    assert after[0] is not many[0]  # busy
    assert released == (ReleasedCores(STEADY + 1, pytest.approx(0.4)),)
    again, kept = stepped(after, now(slightly, use=use, steady=STEADY + 2), released)
    assert [one.quota for one in again] == [one.quota for one in after]
    assert kept == released


def test_what_tokens_take_back_counts_too() -> None:
    empty = quota("a", 300_000, asked=LIMITED, tokens=BurstTokens(-5.0, 2000.0, STEADY))
    other = quota("b", 300_000)
    use = {"a": 3.0, "b": 3.0}
    after, released = stepped([empty, other], now(SharePool(5.2, 10.0, 0.5), use=use), ())
    assert [one.quota for one in after] == [240_000, 300_000]
    assert sum(one.cores for one in released) == pytest.approx(0.6)
    # Where use is not known all of the quota counts as used.
    after, released = stepped([quota(value=200_000), quota("b")], now(FULL), ())
    assert [one.quota for one in after] == [160_000, 100_000]
    assert released == (ReleasedCores(STEADY + 1, pytest.approx(0.4)),)


@pytest.mark.parametrize(
    ("limit", "percent", "value", "saved"),
    [
        (1000, 1000, 100_000, 100_000),
        (1000, 50, 100_000, 50_000),
        (1000, 1000, 300_000, 100_000),
        (1000, 80, 300_000, 80_000),
        (0, 50, 100_000, 50_000),
        (500, 1000, 100_000, 50_000),
        (500, 100, 300_000, 50_000),
    ],
)
def test_what_may_be_saved_up(limit: int, percent: int, value: int, saved: int) -> None:
    one = quota(value=value, limit=limit, asked=replace(ASKED, burst_percent=percent))
    assert one.saved == saved
    assert burst_within(5, -1) == 0


def test_the_period_is_the_group_s_own() -> None:
    one = quota(base=40_000, value=40_000, period=20_000, limit=2000)
    assert one._replace(asked=replace(ASKED, burst_percent=50)).saved == 20_000
    [found], released = stepped([one._replace(quota=60_000)], now(FULL, use={"web": 3.0}), ())
    assert found.quota == 48_000
    assert released[0].cores == pytest.approx(0.6)


quotas = st.integers(1000, 10**8)


@given(quotas, st.integers(1, 1_000_000), st.integers(-1, 10**9), st.sampled_from(QuotaMove))
def test_a_quota_is_within_base_and_ceiling(
    base: int, percent: int, value: int, move: QuotaMove
) -> None:
    one = quota(base=base, asked=replace(ASKED, quota_percent=percent))
    one = one._replace(quota=within(value, base, one.most))
    after = one.moved(move, QuotaCause.POOL).quota
    assert base <= after <= max(base, base * percent / 100)
    assert (
        move is QuotaMove.HOLD
        or (after >= one.quota) == (move is QuotaMove.UP)
        or after == one.quota
    )


@given(quotas, st.integers(100, 1000), st.integers(1, 10_000), st.integers(0, 10**6))
def test_a_burst_is_never_above_the_quota_without_burst(
    base: int, percent: int, burst: int, limit: int
) -> None:
    asked = replace(ASKED, quota_percent=percent, burst_percent=burst)
    for value in (base, ceiling(base, percent)):
        one = quota(base=base, value=value, limit=limit, asked=asked)
        assert 0 <= one.saved <= min(base, 10**8)


@given(st.lists(st.integers(100_000, 300_000), min_size=1, max_size=12))
def test_an_overload_that_stays_brings_all_of_them_home(values: list[int]) -> None:
    many = [quota(f"p{n}", value) for n, value in enumerate(values)]
    released: tuple[ReleasedCores, ...] = ()
    for second in range(400):
        many, released = stepped(many, now(SharePool(9.0, 10.0, 0.5), steady=second), released)
    assert {one.quota for one in many} == {100_000}
