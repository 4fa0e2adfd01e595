"""Evicting best-effort pods that get much less CPU than they request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from koord_model.keys import BATCH_CPU
from koord_model.qos import QoSClass
from koord_model.used_threshold import CPUEvictPolicy
from koordlet.qos_manager.core.strategy import PodView, StrategyView
from koordlet.qos_manager.strategies import be_cpu_evict
from koordlet.qos_manager.strategies.be_cpu_evict import Settings

from tests.support.views import FakeHistory, FakeLatest, pod_view, stats, view

SETTINGS = Settings(enable=True, lower_percent=30, upper_percent=40, window_seconds=60)
BY_ALLOCATABLE = replace(SETTINGS, policy=CPUEvictPolicy.ALLOCATABLE, busy_percent=50)
WORDS = ("usage", "request", "real-limit")
UNKNOWN = "no eviction: what best-effort pods use and may have is not known"
SHORT = (9500, 50_000, 10_000)


def batch(name: str, milli: int, priority: int | None = 5500, **others: Any) -> PodView:
    requests = {BATCH_CPU: milli}
    return pod_view(name, qos=QoSClass.BE, priority=priority, requests=requests, **others)


PODS = (
    batch("half", 10_000),
    batch("fifth", 2000),
    batch("lower", 1000, 5000),
    batch("idle", 3000),
    batch("unmeasured", 4000),
    batch("nothing", 0),
    pod_view("ls", qos=QoSClass.LS, requests={BATCH_CPU: 9000}),
    batch("unknown", 9000, listed=False),
)
CORES = {"half": 5.0, "fifth": 0.4, "lower": 0.1, "idle": 0.0, "nothing": 1.0, "ls": 9.0}
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
    series = dict(zip(keys, over_window, strict=True))
    history = FakeHistory(
        {key: stats(one, points=points, seconds=max(points - 1, 0)) for key, one in series.items()}
    )
    others.setdefault("pods", PODS)
    return view(latest=latest, history=history, allocatable=allocatable or {}, **others)


def need(seen: StrategyView, settings: Settings = SETTINGS) -> float:
    """What is claimed, -1 where the numbers are not known."""
    plan = be_cpu_evict.plan(seen, settings, None)
    [decision] = plan.decisions
    return sum(one.need for one in plan.claims) or (-1 if decision.outcome == UNKNOWN else 0)


@pytest.mark.parametrize(
    ("over_window", "now", "expected"),
    [
        # Koordinator's own examples.
        (SHORT, (0, 0, 0), 0),
        (SHORT, (5000, 50_000, 10_000), 0),
        (SHORT, (13_000, 50_000, 14_000), 6000),
        ((12_000, 50_000, 13_000), (10_000, 50_000, 11_000), 7000),
        (SHORT, None, 10_000),
    ],
)
def test_it_must_be_so_over_the_window_and_now(
    over_window: Numbers, now: Numbers | None, expected: float
) -> None:
    assert need(node(over_window, now)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("allocatable", "expected"), [(8000, 12_000), (0, 19_999), (30_000, 0), (None, -1), (-5, -1)]
)
def test_by_allocatable_what_the_node_has_counts_as_the_limit(
    allocatable: int | None, expected: float
) -> None:
    amounts = {} if allocatable is None else {BATCH_CPU: allocatable}
    seen = node((6000, 50_000, 10_000), (4000, 50_000, 10_000), allocatable=amounts)
    assert need(seen, BY_ALLOCATABLE) == pytest.approx(expected)


def test_pods_go_by_priority_and_then_by_the_share_of_their_request_they_use() -> None:
    (claim,) = be_cpu_evict.plan(node(SHORT), SETTINGS, None).claims
    assert (claim.rule, claim.resource, claim.opt_in) == ("BECPUEvict", BATCH_CPU, False)
    released = [(victim.pod.uid, victim.releases) for victim in claim.victims]
    assert released == [
        ("lower", 1000),
        ("half", 10_000),
        ("fifth", 2000),
        ("idle", 3000),
        ("unmeasured", 4000),
    ]


@pytest.mark.parametrize(("points", "expected"), [(0, -1), (1, -1), (19, -1), (20, 10_000)])
def test_a_window_with_too_few_points_says_nothing(points: int, expected: float) -> None:
    assert need(node(SHORT, points=points)) == expected
    assert need(node(SHORT, points=points), replace(SETTINGS, window_seconds=None)) == 10_000


@pytest.mark.parametrize("missing", WORDS)
def test_every_number_must_be_known(missing: str) -> None:
    seen = node(SHORT)
    assert isinstance(seen.latest, FakeLatest)
    del seen.latest.values["node_be", "cpu", missing]
    assert need(seen) == -1


@pytest.mark.parametrize("others", [{"pods_known": False}, {"pods": ()}], ids=["unknown", "none"])
def test_without_pods_nothing_is_claimed(others: dict[str, Any]) -> None:
    assert need(node(SHORT, **others)) == 0


def test_equal_bounds_are_taken() -> None:
    assert need(node(SHORT), replace(SETTINGS, upper_percent=30)) == 5000


@pytest.mark.parametrize(("request_", "stay"), [(50_000, {"5", "99"}), (51_000, set())])
def test_a_pod_may_tolerate_suppression_up_to_five_times(request_: float, stay: set[str]) -> None:
    key = "katalyst.kubewharf.io/cpu_enhancement"
    rates = ("4.9", "5", "99", "-5", "much")
    pods = [
        batch(
            f"p{rate}",
            1000,
            uid=rate,
            annotations={key: f'{{"suppression_tolerance_rate":"{rate}"}}'},
        )
        for rate in rates
    ]
    seen = node((9500, request_, 10_000), pods=tuple(pods))
    (claim,) = be_cpu_evict.plan(seen, SETTINGS, None).claims
    assert set(rates) - {victim.pod.uid for victim in claim.victims} == stay
