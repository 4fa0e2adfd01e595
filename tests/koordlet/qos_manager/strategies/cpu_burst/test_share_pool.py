"""The CPUs that pods share: how full they are, and whose raised quotas come down."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.strategies.cpu_burst.share_pool import (
    RaisedQuota,
    ReleasedCores,
    SharePool,
    SharePoolState,
    recent,
    shared_cpus,
    to_lower,
    unseen,
)

from tests.support.views import FakeHistory, FakeLatest, cpu_info, pod_view, stats, view

cores = st.floats(0, 1000)


@pytest.mark.parametrize(
    ("used", "total", "state", "excess"),
    [
        (4.49, 10, SharePoolState.IDLE, 0.0),
        (4.5, 10, SharePoolState.COOLING, 0.0),
        (4.99, 10, SharePoolState.COOLING, 0.0),
        (5.0, 10, SharePoolState.OVERLOADED, 0.25),
        (9.0, 10, SharePoolState.OVERLOADED, 4.25),
        (None, 10, SharePoolState.UNKNOWN, 0.0),
        # A pool without CPUs is full.
        (0.5, 0, SharePoolState.OVERLOADED, 0.5),
        (0.5, -2, SharePoolState.OVERLOADED, 0.5),
    ],
)
def test_the_states_are_koordinator_s(
    used: float | None, total: float, state: SharePoolState, excess: float
) -> None:
    pool = SharePool(used, total, 0.5)
    assert pool.state is state
    assert pool.excess == pytest.approx(excess)


@given(cores, cores, st.floats(0.1, 100), st.floats(0, 1))
def test_more_use_never_eases_the_state(one: float, other: float, total: float, at: float) -> None:
    order = [SharePoolState.IDLE, SharePoolState.COOLING, SharePoolState.OVERLOADED]
    low, high = (SharePool(used, total, at) for used in sorted((one, other)))
    assert order.index(low.state) <= order.index(high.state)
    assert low.excess <= high.excess


def raised(*releases: float) -> list[RaisedQuota]:
    return [RaisedQuota((f"u{n}", "c"), each, each + 1) for n, each in enumerate(releases)]


def keys(found: tuple[RaisedQuota, ...]) -> list[str]:
    return [one.key[0] for one in found]


def test_the_greediest_come_down_until_it_is_enough() -> None:
    many = raised(0.1, 3.0, 0.2, 2.0, 1.0, 0.3, 0.4, 0.5, 0.0, 0.0, 0.0, 0.0)
    assert keys(to_lower(2.5, many)) == ["u1"]
    assert keys(to_lower(4.5, many)) == ["u1", "u3"]
    assert keys(to_lower(100, many)) == ["u1", "u3", "u4"]  # a quarter in one round
    assert to_lower(0.0, many) == to_lower(-1.0, many) == ()
    assert to_lower(1.0, []) == ()
    # Of those that release nothing the highest comes first, of equal ones the first by name.
    two = [RaisedQuota(("a", "c"), 0.0, 1.0), RaisedQuota(("b", "c"), 0.0, 2.0)]
    alike = [RaisedQuota((name, "c"), 1.0, 1.0) for name in ("b", "a")]
    assert (keys(to_lower(1.0, two)), keys(to_lower(1.0, alike))) == (["b"], ["a"])


@given(st.floats(0.001, 1000), st.lists(cores, min_size=1, max_size=60))
def test_never_all_at_once_and_no_more_than_needed(excess: float, releases: list[float]) -> None:
    many = raised(*releases)
    chosen = to_lower(excess, many)
    assert 1 <= len(chosen) <= math.ceil(len(many) / 4)
    assert sum(one.releases for one in chosen[:-1]) < excess
    assert to_lower(excess, many[::-1]) == chosen
    assert set(chosen) <= set(to_lower(excess * 2, many))


def test_what_was_taken_back_is_seen_bit_by_bit() -> None:
    released = ((90.0, 8.0), (96.0, 2.0), (100.0, 1.0), (101.0, 1.0))
    lately = tuple(ReleasedCores(*one) for one in released)
    kept = recent(lately, 100.0, 5.0)
    assert kept == lately[1:3]
    assert unseen(kept, 100.0, 5.0) == pytest.approx(2.0 * 0.2 + 1.0)


PODS = (
    pod_view("lse", qos=QoSClass.LSE, requests={"cpu": 4000}),
    pod_view("lsr", qos=QoSClass.LSR, requests={"cpu": 2000}),
    pod_view("be", qos=QoSClass.BE),
    pod_view("ls", qos=QoSClass.LS, requests={"cpu": 2000}),
    pod_view("plain", kube=KubeQoS.GUARANTEED, requests={"cpu": 2000}),
    pod_view("new", qos=QoSClass.BE),
)
SIXTEEN = FakeLatest({}, cpu_info(16))
USE = {
    ("node_cpu_usage",): stats(12.0, last=20.0),
    ("pod_cpu_usage", "lse"): stats(3.0),
    ("pod_cpu_usage", "lsr"): stats(1.0),
    ("pod_cpu_usage", "be"): stats(2.0),
    ("pod_cpu_usage", "ls"): stats(4.0),
}


def test_the_pool_is_what_ls_pods_and_the_system_share() -> None:
    node = view(pods=PODS, latest=SIXTEEN, history=FakeHistory(USE))
    pool, decision = shared_cpus(node, 50)
    assert pool == SharePool(6.0, 10.0, 0.5)
    assert decision.outcome.startswith("shared CPUs are overloaded")
    assert str(decision).endswith(
        "with node 12 cores, LSE, LSR, BE pods 6 cores, CPUs 16 cores, "
        "LSE, LSR requests 6 cores, share 60 %, threshold 50 %)"
    )
    # Without a window the newest value counts.
    latest = FakeLatest({("node_cpu_usage",): 2.0}, cpu_info(16), pod_cpu_usage={"be": 1.5})
    assert shared_cpus(view(pods=PODS, latest=latest), 50)[0] == SharePool(0.5, 10.0, 0.5)


@pytest.mark.parametrize(
    "missing",
    [
        {"latest": SIXTEEN},
        {"history": FakeHistory(USE)},
        {"history": FakeHistory(USE), "latest": SIXTEEN, "pods_known": False},
    ],
    ids=["use", "cpus", "pods"],
)
def test_what_is_missing_makes_it_unknown(missing: dict[str, object]) -> None:
    pool, decision = shared_cpus(view(pods=PODS, **missing), 50)
    assert pool.state is SharePoolState.UNKNOWN
    assert decision.outcome == "use of the shared CPUs is not known: no quota grows"
    assert "share unknown" in str(decision)
