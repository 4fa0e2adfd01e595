"""Evicting pods up to a priority for the node's CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.used_threshold import UsedThreshold
from koordlet.qos_manager.core.strategy import StrategyView, WindowStats
from koordlet.qos_manager.strategies import cpu_evict
from koordlet.qos_manager.strategies.cpu_evict import Settings

from tests.support.views import FakeHistory, FakeLatest, cpu_info, pod_view, stats, view

CPU = ("node_cpu_usage",)
SETTINGS = Settings(enable=True, threshold_percent=80, lower_percent=60, priority=5999)
PODS = (
    pod_view("mid", priority=7500),
    pod_view("a", qos=QoSClass.BE, priority=5500),
    pod_view("b", qos=QoSClass.BE, priority=5500),
)


def node(now: float | None, window: WindowStats | None = None) -> StrategyView:
    """A node of 10 CPUs."""
    values = {} if now is None else {CPU: now}
    latest = FakeLatest(values, cpu_info(10), pod_cpu_usage={"mid": 2.0, "a": 1.0, "b": 3.0})
    return view(pods=PODS, latest=latest, history=FakeHistory({CPU: window} if window else {}))


def test_settings_are_the_node_slo_s() -> None:
    assert cpu_evict.settings(NodeSLO()) == Settings()
    given = UsedThreshold(
        enable=True,
        cpu_evict=80,
        cpu_evict_lower=60,
        evict_priority=5999,
        cpu_evict_window_seconds=30,
    )
    expected = replace(SETTINGS, window_seconds=30)
    assert cpu_evict.settings(NodeSLO(threshold=given)) == expected


def test_above_the_threshold_pods_go_by_priority_and_then_by_use() -> None:
    (claim,) = cpu_evict.plan(node(9.0), SETTINGS, None).claims
    assert (claim.rule, claim.resource, claim.opt_in) == ("CPUEvict", "cpu", True)
    assert claim.need == pytest.approx(3.0)
    released = [(victim.pod.uid, victim.releases) for victim in claim.victims]
    assert released == [("b", 3.0), ("a", 1.0)]


@pytest.mark.parametrize(
    ("now", "window", "need"),
    [
        (9.0, stats(9.5, points=30, seconds=29), 3.0),
        (9.5, stats(9.0, points=30, seconds=29), 3.0),
        # Over already: what has gone is still in the average.
        (7.0, stats(9.0, points=30, seconds=29), None),
        # A moment.
        (9.0, stats(7.0, points=30, seconds=29), None),
    ],
)
def test_with_a_window_it_must_be_so_over_it_and_now(
    now: float, window: WindowStats, need: float | None
) -> None:
    plan = cpu_evict.plan(node(now, window), replace(SETTINGS, window_seconds=30), None)
    assert [claim.need for claim in plan.claims] == ([] if need is None else [need])


@pytest.mark.parametrize(
    ("now", "window"),
    [
        (9.0, None),
        (9.0, stats(9.0, points=5, seconds=4)),
        (None, stats(9.0, points=30, seconds=29)),
    ],
    ids=["no points", "too few points", "no new value"],
)
def test_what_is_not_known_claims_nothing(now: float | None, window: WindowStats | None) -> None:
    plan = cpu_evict.plan(node(now, window), replace(SETTINGS, window_seconds=30), None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome == "no eviction: how much CPU is used is not known"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"enable": False}, "enable"),
        ({"threshold_percent": None}, "cpuEvictThresholdPercent"),
        ({"lower_percent": 80}, "cpuEvictLowerPercent"),
        ({"priority": None}, "evictEnabledPriorityThreshold"),
    ],
)
def test_what_switches_it_off_is_named(changes: dict[str, Any], field: str) -> None:
    plan = cpu_evict.plan(node(9.0), replace(SETTINGS, **changes), None)
    assert plan.claims == ()
    assert plan.decisions[0].outcome.startswith(
        f"off: NodeSLO resourceUsedThresholdWithBE.{field} "
    )
