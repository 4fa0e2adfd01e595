"""Eviction because the node is used too much."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan, StrategyView, WindowStats
from koordlet.qos_manager.eviction.claims import ranking, usage
from koordlet.qos_manager.eviction.claims.thresholds import ThresholdBand

from tests.support.views import (
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
    view,
)

CPU = ("node_cpu_usage",)
PODS = (
    pod_view("prod", qos=QoSClass.LS, priority=9500),
    pod_view("a", qos=QoSClass.BE),
    pod_view("unmeasured", qos=QoSClass.BE),
)
BAND = ThresholdBand(80, 60)


def planned(seen: StrategyView, measure: usage.UsageMeasure = usage.CPU, window: Any = 30) -> Plan:
    pods = partial(ranking.up_to, highest=7999)
    rule = usage.UsageRule("Rule", measure, pods, ranking.by_priority, True, window)
    return usage.plan(seen, rule, BAND)


def node(now: float | None, window: WindowStats | None = None, **others: Any) -> StrategyView:
    """A node of 10 CPUs."""
    latest = FakeLatest({} if now is None else {CPU: now}, cpu_info(10), pod_cpu_usage={"a": 5.0})
    history = FakeHistory({CPU: window} if window else {})
    return view(**{"pods": PODS, "latest": latest, "history": history, **others})


def full(used: float, points: int = 30) -> WindowStats:
    return stats(used, points=points, seconds=points - 1)


@pytest.mark.parametrize(
    ("used", "capacity", "band", "expected"),
    [
        # Koordinator's own examples: 100 CPUs of which 81 are used.
        (81.0, 100.0, ThresholdBand(80, 78), 3.0),
        (80.0, 100.0, ThresholdBand(80, 78), 2.0),
        (79.99, 100.0, ThresholdBand(80, 78), 0.0),
        (11.0, 100.0, ThresholdBand(80, 78), 0.0),
        (70e9, 100e9, ThresholdBand(70, 68), 2e9),
        (100.0, 100.0, ThresholdBand(100, 0), 100.0),
    ],
)
def test_what_is_above_the_lower_threshold_is_to_be_freed(
    used: float, capacity: float, band: ThresholdBand, expected: float
) -> None:
    assert usage.need(used, capacity, band) == pytest.approx(expected)


bands = st.integers(1, 100).flatmap(
    lambda top: st.builds(ThresholdBand, st.just(top), st.integers(0, top - 1))
)


@given(st.floats(0, 1e15), st.floats(0, 1e15), st.floats(1e-3, 1e15), bands)
def test_need_grows_with_use_and_brings_the_node_below_its_threshold(
    one: float, other: float, capacity: float, band: ThresholdBand
) -> None:
    less, more = sorted((one, other))
    assert 0 <= usage.need(less, capacity, band) <= usage.need(more, capacity, band)
    left = more - usage.need(more, capacity, band)
    # Floating point: the rest of a large use is rounded as that is.
    assert left <= capacity * band.threshold / 100 * (1 + 1e-9) + more * 1e-15


@pytest.mark.parametrize(("measure", "expected"), [(usage.CPU, 7.0), (usage.MEMORY, 1024.0)])
def test_a_node_without_capacity_has_none_that_is_known(
    measure: usage.UsageMeasure, expected: float
) -> None:
    found = FakeLatest({}, cpu_info(8, offline=[3]), memory_info(1024))
    assert usage.capacity(view(latest=found), measure) == expected
    for latest in (FakeLatest(), FakeLatest({}, cpu_info(0), memory_info(0))):
        assert usage.capacity(view(latest=latest), measure) is None


@pytest.mark.parametrize(
    ("seen", "need", "outcome"),
    [
        (node(9.0, full(9.5)), 3.0, "CPU is at or above its threshold: pods are to be evicted"),
        (node(9.5, full(9.0)), 3.0, "CPU is at or above its threshold: pods are to be evicted"),
        # What has gone is still in the average.
        (node(7.0, full(9.0)), None, "no eviction: CPU is below its threshold"),
        (node(9.0, full(7.0)), None, "no eviction: CPU is below its threshold"),
        (node(9.0), None, "no eviction: how much CPU is used is not known"),
        (node(9.0, full(9.0, 5)), None, "no eviction: how much CPU is used is not known"),
        (node(None, full(9.0)), None, "no eviction: how much CPU is used is not known"),
        (node(9.0, latest=FakeLatest()), None, "no eviction: the node's CPU is not known"),
        (node(9.0, pods_known=False), None, "no eviction: it is not known yet which pods run"),
        (node(9.0, full(9.0), pods=PODS[:1]), None, "CPU is at or above its threshold, but this"),
        (node(9.0, full(9.0), pods=PODS[2:]), None, "CPU is at or above its threshold, but this"),
        (node(9.0, full(9.0), pods=()), None, "CPU is at or above its threshold, but this rule"),
        # Whoever selects has to know what pods that are on their way out free.
        (node(9.0, full(9.0), evicting=frozenset("a")), 3.0, "CPU is at or above its threshold"),
    ],
)
def test_use_must_be_above_the_threshold_over_the_window_and_now(
    seen: StrategyView, need: float | None, outcome: str
) -> None:
    plan = planned(seen)
    assert [(one.need, one.victims[0].pod.uid) for one in plan.claims] == [(need, "a")] * bool(need)
    assert plan.decisions[0].outcome.startswith(outcome)


@pytest.mark.parametrize(("used", "need"), [(97.0, 25 - 28 * 0.6), (90.0, None)])
def test_huge_pages_are_neither_used_nor_capacity(used: float, need: float | None) -> None:
    seen = FakeLatest(
        {("node_memory_usage",): used, ("node_memory_huge_pages",): 72.0},
        memory_info(100),
        pod_memory_usage={"a": 5.0},
    )
    claims = planned(view(pods=PODS, latest=seen), usage.MEMORY, None).claims
    assert [one.need for one in claims] == [pytest.approx(need)] * (need is not None)


def test_the_decision_has_the_numbers() -> None:
    numbers = {one.name: one.value for one in planned(node(7.5, full(7.0))).decisions[0].given}
    assert numbers == {
        "used": 7.0,
        "capacity": 10.0,
        "lower": 60,
        "use": 70.0,
        "threshold": 80,
        "used now": 7.5,
        "used over the window": 7.0,
        "need": 0.0,
    }
