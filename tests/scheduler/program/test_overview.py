"""The overview of queue and nodes, and the rates of the last minutes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node, NodeSpec, NodeStatus
from koord_scheduler.program.metrics import SchedulerMetrics, SchedulerStatus
from koord_scheduler.program.overview import device_shares, nodes_overview, queue_overview
from koord_scheduler.program.recent_rates import DecisionTotals, RecentRates, quantile
from koord_scheduler.state.cluster_state import ClusterState
from prometheus_client import CollectorRegistry

from tests.scheduler.program.test_explanation import NOW, Shop

MORE_THAN_SHOWN = 40


def test_nodes_by_the_share_that_is_requested() -> None:
    shop = Shop(full="4", half="4", empty="4")
    shop.node("cordoned", "0", unschedulable=True)
    for number in range(4):
        shop.pod(f"a{number}", "1", nodeName="full")
    shop.pod("b", "2", nodeName="half")
    shop.pod("c", "9", nodeName="gone")  # no node, so it counts for nothing
    found = nodes_overview(shop.scheduler.nodes)
    assert (found["nodes"], found["unschedulable"]) == (4, 1)
    cpu = found["cpu"]
    assert (cpu["requested"], cpu["allocatable"]) == (6000, 12000)
    assert cpu["histogram"] == [2, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert found["memory"]["histogram"] == [4, *[0] * 9]
    assert [one["node"] for one in found["fullest"][:2]] == ["full", "half"]
    assert found["fullest"][0] == {
        "node": "full",
        "cpu": 1.0,
        "memory": 0.0,
        "free_cpu": 0,
        "free_memory": 16 << 30,
        "pods": 4,
    }
    assert [one["node"] for one in found["emptiest"][2:]] == ["half", "full"]


def test_devices_of_nodes_by_their_scarcest_kind() -> None:
    shop = Shop(plain="4")
    two = {"koordinator.sh/gpu": "200", "example.com/fpga": "8", "kubernetes.io/batch-cpu": "900"}
    amounts = {"cpu": "4", "memory": "1Gi", "pods": "9", **two}
    shop.scheduler.nodes.set(Node(AnnotatedMeta("cards"), NodeSpec(), NodeStatus(amounts)))
    for number in range(2):
        asked = {"koordinator.sh/gpu": "50", "example.com/fpga": "1"}
        container = {"name": "c", "resources": {"requests": {**asked, "cpu": "1"}}}
        shop.pod(f"p{number}", nodeName="cards", containers=[container])
    shop.pod("c", nodeName="gone", containers=[container])
    assert device_shares(shop.scheduler.nodes) == {"nodes": {"cards": 50}}
    assert device_shares(ClusterState()) == {"nodes": {}}


def test_no_nodes() -> None:
    found = nodes_overview(ClusterState())
    assert (found["nodes"], found["fullest"], found["emptiest"]) == (0, [], [])
    assert sum(found["cpu"]["histogram"]) == 0


def test_a_node_is_as_full_as_its_fuller_resource() -> None:
    shop = Shop(a="4", b="4", c="4")
    memory = {"name": "c", "resources": {"requests": {"memory": "15Gi"}}}
    shop.pod("cpu", "2", nodeName="a")
    shop.pod("memory", nodeName="b", containers=[memory])
    both = {"name": "c", "resources": {"requests": {"cpu": "2500m", "memory": "10Gi"}}}
    shop.pod("both", nodeName="c", containers=[both])
    found = nodes_overview(shop.scheduler.nodes)
    assert [one["node"] for one in found["fullest"]] == ["b", "c", "a"]


def test_classes_that_fit_nowhere_and_those_whose_turn_comes() -> None:
    shop = Shop(n1="1")
    for number in range(3):
        shop.pod(f"big-{number}", "8", priority=9)
    shop.scheduler.decide(NOW.monotonic)
    for queued in shop.scheduler.queue.pods.values():
        queued.reported = "no room"
        queued.added -= float(queued.number)
    shop.pod("small", "500m")
    shop.pod("gated", schedulingGates=[{"name": "a/b"}])
    found = queue_overview(shop.scheduler.queue, NOW.monotonic)
    assert found["parked"] == {
        "classes": 1,
        "pods": 3,
        "largest": [
            {
                "pods": 3,
                "like": "shop/big-0",
                "scheduler": "default-scheduler",
                "priority": 9,
                "asks": "8 cpu",
                "waiting_seconds": 13.0,
                "reason": "no room",
            }
        ],
    }
    active = found["active"]
    assert (active["classes"], active["pods"]) == (1, 1)
    assert (active["largest"][0]["like"], active["largest"][0]["asks"]) == (
        "shop/small",
        "500m cpu",
    )
    for left, key in ((2, "shop/big-0"), (1, "shop/big-1"), (0, "shop/big-2")):
        shop.scheduler.remove_pod(key)
        found = queue_overview(shop.scheduler.queue, NOW.monotonic)["parked"]
        assert (found["pods"], found["classes"]) == (left, min(left, 1))


def test_it_is_as_large_for_a_large_cluster() -> None:
    shop = Shop(**{f"n{number}": "1" for number in range(MORE_THAN_SHOWN)})
    for number in range(MORE_THAN_SHOWN):
        for pod in range(number % 7 + 1):
            shop.pod(f"web-{number}-{pod}", f"{number + 2}")
    queue = shop.scheduler.queue
    while shop.scheduler.decide(NOW.monotonic):
        pass
    for queued in queue.pods.values():
        queued.reported = "x" * 10_000
    parked = queue_overview(queue, NOW.monotonic)["parked"]
    assert parked["classes"] == MORE_THAN_SHOWN
    assert [one["pods"] for one in parked["largest"]] == [7] * 5 + [6] * 3
    text = json.dumps([parked, nodes_overview(shop.scheduler.nodes)])
    assert len(text) < 16_000


def totals(bound: int, *decided: int) -> DecisionTotals:
    return DecisionTotals(bound, (0.001, 0.002, math.inf), decided)


def test_rates_are_differences_of_totals() -> None:
    rates = RecentRates()
    assert rates.document() == {"times": [], "bound": [], "p50": [], "p99": [], "minute": {}}
    rates.add(10.0, 1000.0, totals(5, 1, 1, 1))
    rates.add(15.0, 1005.0, totals(105, 101, 101, 101))
    rates.add(20.0, 1010.0, totals(105, 101, 101, 101))
    found = rates.document()
    assert found["times"] == [1005.0, 1010.0]
    assert found["bound"] == [20.0, 0.0]
    assert found["p50"] == [pytest.approx(0.0005), None]
    assert found["minute"]["bound"] == 10.0
    for step in range(5, 200):
        rates.add(step * 5.0, step * 5.0, totals(105, 101, 101, 101))
        if step == 20:
            assert rates.document()["minute"] == {"bound": 0.0, "p50": None, "p99": None}
    assert len(rates.document()["times"]) == 120


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3), st.floats(0.01, 1.0))
def test_a_quantile_has_the_rank_in_its_bucket(numbers: Sequence[int], part: float) -> None:
    bounds = (1.0, 2.0, math.inf)
    counts = [sum(numbers[: place + 1]) for place in range(3)]
    found = quantile(part, bounds, counts)
    if not counts[-1]:
        assert found is None
        return
    rank = part * counts[-1]
    assert found is not None
    below = [count for bound, count in zip(bounds, counts, strict=True) if bound < found]
    assert max(below, default=0) <= rank + 1e-9
    assert rank <= counts[0] or found >= 1.0
    assert rank <= counts[1] or found == 2.0


def test_what_metrics_count_is_what_rates_are_made_of() -> None:
    metrics = SchedulerMetrics(CollectorRegistry(), lambda: SchedulerStatus(leads=True))
    for result, seconds in (("scheduled", 0.00004), ("scheduled", 0.00006), ("error", 1e9)):
        metrics.attempt_seconds.labels(result, "default-scheduler").observe(seconds)
    metrics.sli_seconds.observe(1.0)
    found = metrics.totals()
    assert found.bound == 1
    assert found.bounds[:2] == (0.00005, 0.0001)
    assert (found.decided[0], found.decided[1], found.decided[-1]) == (1, 2, 3)
    assert found.bounds[-1] == math.inf


def test_rates_are_known_from_before_the_first_decision() -> None:
    metrics = SchedulerMetrics(CollectorRegistry(), lambda: SchedulerStatus(leads=True))
    rates = RecentRates()
    rates.add(0.0, 0.0, metrics.totals())
    metrics.attempt_seconds.labels("scheduled", "default-scheduler").observe(0.00004)
    rates.add(5.0, 5.0, metrics.totals())
    assert rates.document()["p50"] == [0.000025]


def test_pods_wait_since_they_were_created_also_for_a_scheduler_that_has_just_started() -> None:
    shop = Shop(n1="1")
    shop.pod("big", "8")
    found = queue_overview(shop.scheduler.queue, NOW.monotonic, NOW.epoch)
    assert found["active"]["largest"][0]["waiting_seconds"] == 90.0
