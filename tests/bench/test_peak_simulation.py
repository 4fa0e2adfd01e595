"""The simulation that compares rules of placement by hot-spot minutes."""

from __future__ import annotations

import numpy as np
import pytest
from koord_model.priority import PriorityClass
from koord_prediction.peak import PeakPolicy
from koord_scheduler.objects.pod_times import PodTimes
from koord_scheduler.plugins.load_aware.estimates import LoadEstimator
from koord_scheduler.plugins.load_aware.load_node import LoadNode
from koord_scheduler.plugins.load_aware.node_metric import NodeReport, ReportedPod
from koord_scheduler.plugins.load_aware.pod_load import AskedAmount, PodLoad
from koord_scheduler.plugins.load_aware.row_load import AssignedPod, row_load

from bench import peak_rules
from bench.peak_loads import DAY, PodsOverTime, draw_pods
from bench.peak_rules import (
    AnyNode,
    Foresight,
    LoadAware,
    PodPeaks,
    PredictedPeak,
    Requests,
    usage_now,
    usage_of_running,
    usage_p95,
)
from bench.peak_simulation import SYSTEM_CORES, EqualNodes, nodes_for, run

NODES = EqualNodes(2, 10.0)


def pods(*rows: tuple[int, int, float, np.ndarray]) -> PodsOverTime:
    """Pods as when they come, how long they last, their request, and what they use."""
    arrives, lasts, request, usage = zip(*rows, strict=True)
    return PodsOverTime(
        np.array(arrives), np.array(lasts), np.array(request), np.array(request), np.array(usage)
    )


def cores(used: float, steps: int = DAY) -> np.ndarray:
    return np.full(steps, used)


def half_days(first: float, second: float, days: int = 2) -> np.ndarray:
    half = DAY // 2
    return np.tile(np.concatenate([cores(first, half), cores(second, half)]), days)


def nodes_of(some: PodsOverTime, make, nodes: EqualNodes = NODES) -> list[int]:
    """Which node each pod got."""
    found: dict[int, int] = {}

    def noting(pods: PodsOverTime, nodes: EqualNodes):
        rule = make(pods, nodes)
        count = rule.count

        def noted(pod: int, step: int, node: int) -> None:
            found[pod] = node
            count(pod, step, node)

        rule.count = noted
        return rule

    run(some, nodes, noting, seed=0, warm_up=0)
    return [found.get(pod, -1) for pod in range(len(some.arrives))]


def test_hot_minutes_are_of_demand_over_the_threshold() -> None:
    one = pods((0, 12, 7.0, cores(7.0)))
    found = run(one, NODES, AnyNode, seed=0, warm_up=0)
    # An hour of one of two nodes in a day.
    assert found.hot == {65: 30.0, 80: 0.0}
    assert found.allocated == pytest.approx(100 * 7 * 12 / (20 * DAY))
    assert found.used == pytest.approx(100 * (7 * 12 / DAY + 2 * SYSTEM_CORES) / 20)


def test_what_is_before_the_warm_up_does_not_count() -> None:
    one = pods((0, 12, 7.0, cores(7.0)))
    assert run(one, NODES, AnyNode, seed=0, warm_up=12).hot == {65: 0.0, 80: 0.0}


def test_a_pod_waits_only_for_room_for_its_request() -> None:
    full = [(0, 6, 10.0, cores(1.0)), (0, 6, 10.0, cores(1.0)), (3, 9, 1.0, cores(9.0))]
    some = pods(*full)
    found = run(some, NODES, lambda p, n: LoadAware(p, n, usage_now(n)), seed=0, warm_up=0)
    # Of 9 steps from the fourth on it waits 3, and then lasts as long as it would have.
    assert found.waited == pytest.approx(3 / (6 + 6 + 9 + 3))
    assert found.hot[80] == 9 * 5 / 2


def test_a_threshold_is_counted_and_not_obeyed() -> None:
    some = pods((0, DAY, 1.0, cores(9.0)), (0, DAY, 1.0, cores(9.0)), (1, 9, 1.0, cores(0.0)))
    found = run(some, NODES, lambda p, n: LoadAware(p, n, usage_now(n)), seed=0, warm_up=0)
    assert found.refused == pytest.approx(1 / 3)
    assert found.waited == 0


def test_rules_go_by_what_they_say() -> None:
    # The first requests much and uses little, the second the other way round.
    some = pods((0, DAY, 5.0, cores(1.0)), (0, DAY, 1.0, cores(5.0)), (12, DAY, 1.0, cores(1.0)))
    first, second, last = nodes_of(some, Requests)
    assert first != second == last
    first, second, last = nodes_of(some, lambda p, n: LoadAware(p, n, usage_now(n)))
    assert second != first == last


def test_the_percentile_of_half_an_hour_remembers_a_burst() -> None:
    burst = cores(1.0)
    burst[8] = 9.0
    some = pods((0, DAY, 1.0, burst), (0, DAY, 1.0, cores(3.0)), (12, DAY, 1.0, cores(1.0)))
    first, _, last = nodes_of(some, lambda p, n: LoadAware(p, n, usage_now(n)))
    assert last == first
    first, _, last = nodes_of(some, lambda p, n: LoadAware(p, n, usage_p95(n)))
    assert last != first


def test_foresight_puts_pods_together_whose_peaks_are_apart() -> None:
    by_day, by_night = half_days(0.5, 6.0), half_days(6.0, 0.5)
    lasts = 2 * DAY
    some = pods(
        (0, lasts, 1.0, by_day),
        (0, lasts, 1.0, by_night),
        (1, lasts, 1.0, by_night),
        (2, lasts, 1.0, by_day),
    )
    day, night, other_night, other_day = nodes_of(some, Foresight)
    assert day == other_night != night == other_day
    assert run(some, NODES, Foresight, seed=0, warm_up=0).hot[80] == 0


def test_peaks_of_running_pods_leave_out_the_past_of_others() -> None:
    some = pods(
        (0, DAY, 1.0, cores(9.0, 2 * DAY)),
        (0, 2 * DAY, 1.0, half_days(1.0, 3.0)),
        (DAY + 1, DAY, 1.0, cores(0.0, 2 * DAY)),
    )
    first, _, last = nodes_of(some, lambda p, n: LoadAware(p, n, usage_of_running(p), is_peak=True))
    assert last == first


def test_the_predicted_peak_is_the_request_of_a_young_pod() -> None:
    # Both have used little for a while; the one that requests more is where the peak is, for a day.
    def rule(p: PodsOverTime, n: EqualNodes) -> PredictedPeak:
        return PredictedPeak(p, n, PodPeaks(p, PeakPolicy()), PeakPolicy())

    used, more = cores(0.5, 2 * DAY), cores(1.0, 2 * DAY)
    for comes, is_with_the_larger in ((DAY // 2, False), (DAY + 12, True)):
        some = pods(
            (0, 2 * DAY, 5.0, used), (0, 2 * DAY, 2.0, more), (comes, DAY, 0.1, cores(0, 2 * DAY))
        )
        larger, _, last = nodes_of(some, rule)
        assert (last == larger) is is_with_the_larger


def test_reports_without_older_pods_say_the_same() -> None:
    """``LoadAware`` leaves out of a NodeMetric the pods that began before its interval."""
    load = PodLoad(PriorityClass.PROD, (AskedAmount("cpu", 1000, 4000),))
    estimator = LoadEstimator(peak_rules._SETTINGS)
    node, used = LoadNode("", {"cpu": 10_000}), {"cpu": 3000}
    windows = {peak_rules._REPORTED: used}
    older = AssignedPod("a/b", load, PodTimes(1000.0))
    whole = NodeReport(1300.0, usage=used, windows=windows, pods={"a/b": ReportedPod(used, True)})
    short = NodeReport(1300.0, usage=used, windows=windows)
    with_pods = row_load(estimator, node, whole, [older], 1300.0)
    without = row_load(estimator, node, short, [], 1300.0)
    assert with_pods.sums == without.sums == [3000.0] * 4
    assert with_pods.limits == without.limits


def test_pods_keep_the_time_of_day_of_their_series() -> None:
    series = np.tile(np.arange(DAY) / DAY * 100, (3, 4))
    found = draw_pods(series, 3, 40.0, 24.0, seed=1)
    expected = np.tile(np.arange(DAY) / DAY, 3)
    assert np.allclose(found.usage, found.limit[:, None] * expected)
    assert (np.diff(found.arrives) >= 0).all()
    assert found.usage.mean() == pytest.approx(found.request.mean() / 2)


def test_nodes_are_as_many_as_the_requests_take() -> None:
    some = pods(*[(0, 2 * DAY, 1.0, cores(0.5, 2 * DAY))] * 40)
    assert nodes_for(some, 10.0, 0.8, warm_up=DAY) == EqualNodes(5, 10.0)


def test_sized_requests_follow_what_pods_use() -> None:
    series = np.array([np.full(DAY, 2.0), np.full(DAY, 20.0)])
    found = draw_pods(series, 1, 400.0, 24.0, seed=1, is_sized=True)
    used = found.usage.mean(axis=1)
    assert np.corrcoef(np.log(used), np.log(found.request))[0, 1] > 0.8
    assert found.request.mean() == pytest.approx(2 * used.mean(), rel=0.1)
    assert (found.request <= found.limit).all()
