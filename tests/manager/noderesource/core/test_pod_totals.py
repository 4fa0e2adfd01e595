from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.node_state import (
    CpuMemory,
    MeasuredUsage,
    MetricSummary,
    NumaZone,
    PodUsageSummary,
)
from koord_manager.noderesource.core.pod_totals import PodSums, account, zone_totals
from koord_manager.noderesource.core.pods import PodSummary
from koord_model.priority import PriorityClass

PROD, MID, BATCH = PriorityClass.PROD, PriorityClass.MID, PriorityClass.BATCH
TWO = (NumaZone("node-0", 0, CpuMemory(3000, 1000)), NumaZone("node-1", 1, CpuMemory(1000, 1000)))


def pod(cpu: int = 100, memory: int = 1000, **more: Any) -> PodSummary:
    return PodSummary(
        node="n",
        active=more.get("active", True),
        priority=more.get("priority", PROD),
        lse=more.get("lse", False),
        cpu=cpu,
        memory=memory,
        numa_nodes=more.get("numa", ()),
    )


def metric(**pods: tuple[int | None, int | None] | PodUsageSummary) -> MetricSummary:
    return MetricSummary(
        pods={
            name: one
            if isinstance(one, PodUsageSummary)
            else PodUsageSummary(MeasuredUsage(*one), "koord-prod")
            for name, one in pods.items()
        }
    )


@pytest.mark.parametrize(
    ("one", "used", "sums"),
    [
        # The request while nobody measured it, in all of the sums.
        (pod(), None, PodSums(CpuMemory(100, 1000), CpuMemory(100, 1000), CpuMemory(100, 1000))),
        (
            pod(),
            (40, 4000),
            PodSums(CpuMemory(40, 4000), CpuMemory(100, 1000), CpuMemory(100, 4000)),
        ),
        (
            pod(),
            (40, None),
            PodSums(CpuMemory(40, 1000), CpuMemory(100, 1000), CpuMemory(100, 1000)),
        ),
        (
            pod(lse=True),
            (40, 400),
            PodSums(CpuMemory(100, 400), CpuMemory(100, 1000), CpuMemory(100, 1000)),
        ),
        (
            pod(70, 0, priority=MID),
            None,
            PodSums(CpuMemory(70, 0), CpuMemory(70, 0), CpuMemory(70, 0)),
        ),
        (pod(priority=BATCH), (40, 400), PodSums()),
        (pod(priority=PriorityClass.FREE), None, PodSums()),
        (pod(active=False), None, PodSums()),
    ],
)
def test_one_pod(
    one: PodSummary, used: tuple[int | None, int | None] | None, sums: PodSums
) -> None:
    reported = metric(p=used) if used else MetricSummary()
    assert account(reported, {"p": one}).high == sums


def test_pods_that_are_gone_count_as_measured() -> None:
    reported = metric(
        gone=(30, 300),
        ended=(5, 50),
        batch=PodUsageSummary(MeasuredUsage(7, 70), "koord-batch"),
        free=PodUsageSummary(MeasuredUsage(7, 70), "koord-free"),
        unsaid=PodUsageSummary(MeasuredUsage(1, 2), ""),
    )
    found = account(reported, {"ended": pod(active=False)}).high
    assert found == PodSums(CpuMemory(36, 352), CpuMemory(), CpuMemory(36, 352))


def test_zones_bear_pods_where_they_are_bound_and_the_rest_by_size() -> None:
    pods = {"free": pod(400, 400), "bound": pod(50, 50, numa=(1,)), "else": pod(8, 8, numa=(7,))}
    reported = MetricSummary(system=MeasuredUsage(40, 40))
    zones = zone_totals(reported, account(reported, pods), CpuMemory(80, 80), TWO)
    assert [one.high.used for one in zones] == [CpuMemory(306, 204), CpuMemory(152, 254)]
    assert [one.system for one in zones] == [CpuMemory(30, 20), CpuMemory(10, 20)]
    assert [one.reserved for one in zones] == [CpuMemory(60, 40), CpuMemory(20, 40)]


def test_a_zone_without_memory_bears_none() -> None:
    zones = (NumaZone("node-0", 0, CpuMemory(1000, 500)), NumaZone("node-1", 1, CpuMemory(1000, 0)))
    found = zone_totals(MetricSummary(), account(MetricSummary(), {"p": pod()}), CpuMemory(), zones)
    assert [one.high.used for one in found] == [CpuMemory(50, 1000), CpuMemory(50, 0)]


_AMOUNT = st.integers(0, 1 << 50)


@given(
    used=st.lists(
        st.tuples(_AMOUNT, _AMOUNT, st.sampled_from([(), (0,), (1,), (0, 1)])), max_size=5
    ),
    sizes=st.lists(st.tuples(_AMOUNT, _AMOUNT), min_size=1, max_size=3),
)
def test_zones_bear_all_that_the_node_bears(
    used: list[tuple[int, int, tuple[int, ...]]], sizes: list[tuple[int, int]]
) -> None:
    pods = {str(place): pod(*one[:2], numa=one[2]) for place, one in enumerate(used)}
    zones = [NumaZone(f"node-{place}", place, CpuMemory(*size)) for place, size in enumerate(sizes)]
    node = account(MetricSummary(), pods)
    found = zone_totals(MetricSummary(), node, CpuMemory(), zones)
    for place in (0, 1):
        if any(size[place] for size in sizes):
            least = node.high.used[place]
            assert sum(one.high.used[place] for one in found) >= least
