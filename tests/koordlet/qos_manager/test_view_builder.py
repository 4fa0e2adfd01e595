from dataclasses import replace

import pytest
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import Target
from koord_model.demand import Demand
from koord_model.node import NodeView
from koord_model.node_info import NodeMemoryInfo
from koord_model.pod import Container, Pod
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.collector_runner import LatestStore
from koordlet.metrics_advisor.contract.collector import Samples
from koordlet.qos_manager.core.strategy import StrategySignal, WindowStats
from koordlet.qos_manager.view_builder import (
    CacheHistory,
    RoundCgroupReader,
    StrategyViewBuilder,
    ViewSources,
)
from koordlet.states_informer.state.pod_inventory import PodRecord
from koordlet.states_informer.state.share_pools import ReservedCPUs

from tests.support.node import FakeKernel
from tests.support.observed import DictionaryCache

LAYOUT = Layout(2, Driver.CGROUPFS)
POD = Pod("web-1", "shop", "u1", cgroup_parent="/kubepods/burstable/podu1")
RECORD = PodRecord(POD, {"c1": Container(POD, "main", "c1")}, demand=Demand(priority=9500))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def newest(clock: Clock) -> LatestStore:
    found = LatestStore(10.0, clock)
    found.keep(Samples([Sample(Series("node_cpu_usage"), 3.0)], (NodeMemoryInfo(1 << 30),)), 100.0)
    return found


def seen(**changes: object) -> ViewSources:
    usual = ViewSources(
        LAYOUT,
        FakeKernel(2),
        pods=lambda: (RECORD,),
        pods_known=lambda: True,
        view=NodeView,
        newest=newest(Clock()),
        cache=DictionaryCache(),
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def test_pods_with_their_groups_and_the_same_object_while_nothing_changes() -> None:
    pods = [RECORD]
    views = StrategyViewBuilder(seen(pods=lambda: tuple(pods)))
    [pod] = views.build(1000.0, 1.0, {}).pods
    assert (pod.name, pod.group) == ("shop/web-1", "kubepods/burstable/podu1")
    [container] = pod.containers
    assert container.group == "kubepods/burstable/podu1/c1"
    [again] = views.build(1001.0, 2.0, {}).pods
    assert again is pod
    pods[0] = replace(RECORD, containers={})
    [other] = views.build(1002.0, 3.0, {}).pods
    assert other.containers == ()


def test_what_is_sampled_later_and_time_leave_it_alone() -> None:
    clock = Clock()
    latest = newest(clock)
    view = StrategyViewBuilder(seen(newest=latest)).build(1000.0, 1.0, {})
    latest.keep(Samples([Sample(Series("node_cpu_usage"), 9.0)], (NodeMemoryInfo(1),)), 100.0)
    clock.now = 1000.0
    assert latest.value("node_cpu_usage") is None
    assert (view.latest.value("node_cpu_usage"), view.memory_bytes) == (3.0, 1 << 30)


@pytest.mark.parametrize(
    ("allocatable", "aside", "expected"),
    [("62500m", (), (1.5, 62500)), ("62500m", (0, 1, 2), (3.0, 62500)), ("90", (), (0.0, 90_000))],
    ids=["by the kubelet", "by the annotation", "amplified"],
)
def test_what_the_node_reserves(
    allocatable: str, aside: tuple[int, ...], expected: tuple[float, int]
) -> None:
    node = {"status": {"capacity": {"cpu": "64"}, "allocatable": {"cpu": allocatable}}}
    reserved = ReservedCPUs(frozenset(aside))
    view = StrategyViewBuilder(seen(node=lambda: node, set_aside=lambda: reserved)).build(0, 0, {})
    assert (view.reserved_cpu, view.allocatable["cpu"]) == expected


def test_once_the_clock_was_put_back_nothing_was_measured_for_a_minute() -> None:
    cache = DictionaryCache()
    for at in (1000.0, 1050.0, 1600.0):
        cache.append(at, [Sample(Series("node_cpu_usage"), 3.0)])
    views = StrategyViewBuilder(seen(cache=cache))

    def measured(at: float, steady: float) -> bool:
        return bool(views.build(at, steady, {}).history.windows("node_cpu_usage", 30.0))

    assert measured(1601.0, 1.0)
    assert measured(1600.0, 4.0), "a second is none: clocks are kept right so"
    assert not measured(1001.0, 6.0), "that was ten minutes ago"
    assert not measured(1060.9, 65.9)
    assert measured(1061.0, 66.0)


def test_windows_end_at_the_view_s_moment() -> None:
    cache = DictionaryCache()
    for second in range(10):
        cache.append(100.0 + second, [Sample(Series("pod_cpu_usage", ("u1",)), float(second))])
    history = CacheHistory(cache, 108.0)
    assert history.windows("pod_cpu_usage", 2.0) == {
        ("u1",): WindowStats(7.0, 8.0, 8.0, 3, 106.0, 108.0)
    }
    assert history.windows("pod_cpu_usage", 2.0) is history.windows("pod_cpu_usage", 2.0)


def cgroups(base: dict[Target, Value] | None = None) -> RoundCgroupReader:
    node = FakeKernel(2)
    for group in ("kubepods/besteffort/poda/c1", "kubepods/besteffort/podb"):
        node.cgroups.make_group(group)
    node.write("/sys/fs/cgroup/kubepods/besteffort/cpu.max", "50000 100000")
    return RoundCgroupReader(node, LAYOUT, (base or {}).get)


def test_cgroups_as_their_files_and_without_strategies() -> None:
    quota = Target("kubepods/besteffort", "cpu.cfs_quota_us")
    assert cgroups().now(*quota) == cgroups().base(*quota) == 50000
    assert cgroups({quota: 20000}).base(*quota) == 20000
    reader = cgroups()
    assert [reader.now(quota.place, f"cpu.cfs_{one}_us") for one in ("quota", "period")] == [
        50000,
        100000,
    ]
    assert reader.now("kubepods/nobody", "cpu.cfs_quota_us") is None
    assert reader.now("kubepods/besteffort", "net_cls.classid") is None


def test_all_groups_below_parents_first() -> None:
    above = "kubepods/besteffort"
    expected = (f"{above}/poda", f"{above}/podb", f"{above}/poda/c1")
    reader = cgroups()
    assert reader.below(above, "cpuset") == reader.below(above, "cpuset") == expected
    assert reader.below("kubepods/nobody", "cpuset") == ()


def test_signals_of_the_last_round() -> None:
    signals = {"one": (StrategySignal("cores", 4.0, "shop/web-1"), StrategySignal("cores", 5.0))}
    view = StrategyViewBuilder(seen()).build(0.0, 0.0, signals)
    assert [view.signal("one", "cores", pod) for pod in ("shop/web-1", "", "x")] == [4.0, 5.0, None]
    assert view.signal("other", "cores") is view.signal("one", "memory") is None
