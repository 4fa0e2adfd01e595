"""Evicting best-effort pods that get much less CPU than they request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import BATCH_CPU
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.used_threshold import CPUEvictPolicy, UsedThreshold
from koordlet.qos_manager.core.strategy import PodView, StrategyView
from koordlet.qos_manager.strategies import be_cpu_evict
from koordlet.qos_manager.strategies.be_cpu_evict import Settings

from tests.support.views import FakeHistory, FakeLatest, pod_view, stats, view

SETTINGS = Settings(enable=True, lower_percent=30, upper_percent=40, window_seconds=60)
BY_ALLOCATABLE = replace(SETTINGS, policy=CPUEvictPolicy.ALLOCATABLE, busy_percent=50)
WORDS = ("usage", "request", "real-limit")
UNKNOWN = "no eviction: what best-effort pods use and may have is not known"


def batch(name: str, milli: int, priority: int | None = 5500, **others: Any) -> PodView:
    requests = {BATCH_CPU: milli}
    return pod_view(name, qos=QoSClass.BE, priority=priority, requests=requests, **others)


PODS = (
    batch("half", 10_000),
    batch("full", 2000),
    batch("lower", 1000, 5000),
    batch("idle", 3000),
    batch("unmeasured", 4000),
    batch("nothing", 0),
    pod_view("ls", qos=QoSClass.LS, requests={BATCH_CPU: 9000}),
    batch("unknown", 9000, listed=False),
)
CORES = {"half": 5.0, "full": 2.0, "lower": 0.1, "idle": 0.0, "nothing": 1.0, "ls": 9.0}
Numbers = tuple[float, float, float]


def node(
    over_window: Numbers,
    now: Numbers | None = None,
    *,
    points: int = 59,
    allocatable: Mapping[str, int] | None = None,
    **others: Any,
) -> StrategyView:
    """Usage, request and real limit, in millicores."""
    keys = [("node_be", "cpu", word) for word in WORDS]
    latest = FakeLatest(dict(zip(keys, now or over_window, strict=True)), pod_cpu_usage=CORES)
    history = FakeHistory(
        {
            key: stats(value, points=points, seconds=max(points - 1, 0))
            for key, value in zip(keys, over_window, strict=True)
        }
    )
    others.setdefault("pods", PODS)
    return view(latest=latest, history=history, allocatable=allocatable or {}, **others)


def need(seen: StrategyView, settings: Settings = SETTINGS) -> float:
    return sum(claim.need for claim in be_cpu_evict.plan(seen, settings, None).claims)


def test_settings_are_the_node_slo_s() -> None:
    assert be_cpu_evict.settings(NodeSLO()) == Settings()
    given_ = UsedThreshold(
        enable=True,
        cpu_evict_satisfaction_lower=30,
        cpu_evict_satisfaction_upper=40,
        cpu_evict_be_usage=50,
        cpu_evict_window_seconds=60,
        cpu_evict_policy=CPUEvictPolicy.ALLOCATABLE,
    )
    assert be_cpu_evict.settings(NodeSLO(threshold=given_)) == BY_ALLOCATABLE


@pytest.mark.parametrize(
    ("over_window", "now", "expected"),
    [
        # Koordinator's own examples.
        ((9500, 50_000, 10_000), (0, 0, 0), 0),
        ((9500, 50_000, 10_000), (5000, 50_000, 10_000), 0),
        ((9500, 50_000, 10_000), (13_000, 50_000, 14_000), 6000),
        ((12_000, 50_000, 13_000), (10_000, 50_000, 11_000), 7000),
        ((9500, 50_000, 10_000), None, 10_000),
        ((10_000, 0, 20_000), None, 0),
    ],
)
def test_it_must_be_so_over_the_window_and_now(
    over_window: Numbers, now: Numbers | None, expected: float
) -> None:
    assert need(node(over_window, now)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("allocatable", "expected"), [(8000, 12_000), (0, 19_999), (30_000, 0), (None, 0), (-5, 0)]
)
def test_by_allocatable_what_the_node_has_counts_as_the_limit(
    allocatable: int | None, expected: float
) -> None:
    amounts = {} if allocatable is None else {BATCH_CPU: allocatable}
    seen = node((6000, 50_000, 10_000), (4000, 50_000, 10_000), allocatable=amounts)
    assert need(seen, BY_ALLOCATABLE) == pytest.approx(expected)
    if allocatable in (None, -5):
        plan = be_cpu_evict.plan(seen, BY_ALLOCATABLE, None)
        assert plan.decisions[0].outcome == UNKNOWN


def test_pods_go_by_priority_and_then_by_the_share_of_their_request_they_use() -> None:
    (claim,) = be_cpu_evict.plan(node((9500, 50_000, 10_000)), SETTINGS, None).claims
    assert (claim.rule, claim.resource, claim.opt_in) == ("BECPUEvict", BATCH_CPU, False)
    assert claim.decision.outcome == (
        "best-effort pods have too little CPU: pods are to be evicted"
    )
    released = [(victim.pod.uid, victim.releases) for victim in claim.victims]
    assert released == [
        ("lower", 1000),
        ("full", 2000),
        ("half", 10_000),
        ("idle", 3000),
        ("unmeasured", 4000),
    ]


def test_the_numbers_of_now_and_of_the_window_are_shown() -> None:
    plan = be_cpu_evict.plan(node((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), SETTINGS, None)
    numbers = {one.name: one.value for one in plan.decisions[0].given}
    assert (numbers["usage"], numbers["request"], numbers["limit"]) == (4.0, 5.0, 6.0)
    assert numbers["usage over the window"] == 1.0
    assert plan.decisions[0].outcome == "no eviction: best-effort pods have CPU enough"


@pytest.mark.parametrize("points", [0, 1, 19])
def test_a_window_with_too_few_points_says_nothing(points: int) -> None:
    seen = node((9500, 50_000, 10_000), points=points)
    plan = be_cpu_evict.plan(seen, SETTINGS, None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome == UNKNOWN
    assert need(node((9500, 50_000, 10_000), points=20)) == 10_000


@pytest.mark.parametrize("missing", WORDS)
def test_every_number_must_be_known(missing: str) -> None:
    seen = node((9500, 50_000, 10_000))
    latest = seen.latest
    assert isinstance(latest, FakeLatest)
    del latest.values["node_be", "cpu", missing]
    assert need(seen) == 0


def test_without_a_window_the_newest_values_count() -> None:
    seen = replace(node((9500, 50_000, 10_000)), history=FakeHistory())
    assert need(seen) == 0
    assert need(seen, replace(SETTINGS, window_seconds=None)) == 10_000


@pytest.mark.parametrize("others", [{"pods_known": False}, {"pods": ()}], ids=["unknown", "none"])
def test_without_pods_nothing_is_claimed(others: dict[str, Any]) -> None:
    assert need(node((9500, 50_000, 10_000), **others)) == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"enable": False}, "enable is not true"),
        ({"lower_percent": None}, "cpuEvictBESatisfactionLowerPercent is not set"),
        ({"upper_percent": None}, "cpuEvictBESatisfactionUpperPercent is not set"),
        ({"lower_percent": 0}, "cpuEvictBESatisfactionLowerPercent is 0; expected 1 to 60"),
        ({"lower_percent": 61}, "cpuEvictBESatisfactionLowerPercent is 61; expected 1 to 60"),
        ({"upper_percent": 100}, "cpuEvictBESatisfactionUpperPercent is 100; expected 30 to 99"),
        ({"upper_percent": 29}, "cpuEvictBESatisfactionUpperPercent is 29; expected 30 to 99"),
    ],
)
def test_what_switches_it_off_is_named(changes: dict[str, Any], field: str) -> None:
    settings = replace(SETTINGS, **changes)
    plan = be_cpu_evict.plan(node((9500, 50_000, 10_000)), settings, None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome == f"off: NodeSLO resourceUsedThresholdWithBE.{field}"


def test_equal_bounds_are_taken() -> None:
    assert need(node((9500, 50_000, 10_000)), replace(SETTINGS, upper_percent=30)) == 5000


numbers = st.tuples(*[st.floats(0, 1e6)] * 3)


@given(numbers, numbers)
def test_the_need_is_never_negative_and_victims_are_best_effort(
    over_window: Numbers, now: Numbers
) -> None:
    seen = node(over_window, now)
    plan = be_cpu_evict.plan(seen, SETTINGS, None)
    assert plan == be_cpu_evict.plan(seen, SETTINGS, plan.memory)
    assert len(plan.decisions) == 1
    for claim in plan.claims:
        assert 0 < claim.need <= max(over_window[1], now[1])
        assert {victim.pod.asked_qos for victim in claim.victims} == {QoSClass.BE}
