from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.reconcilers.node_resource.accounts import (
    Sums,
    account,
    zone_accounts,
)
from koord_manager.reconcilers.node_resource.facts import (
    Application,
    MetricSummary,
    Pair,
    PodUsage,
    Usage,
    Zone,
)
from koord_manager.reconcilers.node_resource.pods import PodFacts
from koord_model.priority import PriorityClass

PROD, MID, BATCH = PriorityClass.PROD, PriorityClass.MID, PriorityClass.BATCH
TWO = (Zone("node-0", 0, Pair(3000, 1000)), Zone("node-1", 1, Pair(1000, 1000)))


def pod(cpu: int = 100, memory: int = 1000, **more: Any) -> PodFacts:
    return PodFacts(
        node="n",
        active=more.get("active", True),
        priority=more.get("priority", PROD),
        lse=more.get("lse", False),
        cpu=cpu,
        memory=memory,
        unseen_cpu=more.get("unseen", cpu),
        unseen_memory=memory,
        numa_nodes=more.get("numa", ()),
    )


def metric(**pods: tuple[int | None, int | None] | PodUsage) -> MetricSummary:
    return MetricSummary(
        pods={
            name: one if isinstance(one, PodUsage) else PodUsage(Usage(*one), "koord-prod")
            for name, one in pods.items()
        }
    )


@pytest.mark.parametrize(
    ("one", "used", "sums"),
    [
        # The request while nobody measured it, in all of the sums.
        (pod(), None, Sums(Pair(100, 1000), Pair(100, 1000), Pair(100, 1000))),
        (pod(), (40, 4000), Sums(Pair(40, 4000), Pair(100, 1000), Pair(100, 4000))),
        (pod(), (40, None), Sums(Pair(40, 1000), Pair(100, 1000), Pair(100, 1000))),
        (pod(lse=True), (40, 400), Sums(Pair(100, 400), Pair(100, 1000), Pair(100, 1000))),
        (pod(0, 0, priority=MID, unseen=70), None, Sums(Pair(70, 0), Pair(), Pair(70, 0))),
        (pod(priority=BATCH), (40, 400), Sums()),
        (pod(priority=PriorityClass.FREE), None, Sums()),
        (pod(active=False), None, Sums()),
    ],
)
def test_one_pod(one: PodFacts, used: tuple[int | None, int | None] | None, sums: Sums) -> None:
    told = metric(p=used) if used else MetricSummary()
    assert account(told, {"p": one}).high == sums


def test_pods_that_are_gone_count_as_measured() -> None:
    told = metric(
        gone=(30, 300),
        ended=(5, 50),
        batch=PodUsage(Usage(7, 70), "koord-batch"),
        free=PodUsage(Usage(7, 70), "koord-free"),
        unsaid=PodUsage(Usage(1, 2), ""),
    )
    found = account(told, {"ended": pod(active=False)}).high
    assert found == Sums(Pair(36, 352), Pair(), Pair(36, 352))


def test_a_batch_pod_that_is_there_is_not_gone() -> None:
    told = metric(p=PodUsage(Usage(30, 300), "koord-prod"))
    assert account(told, {"p": pod(priority=BATCH)}).high == Sums()


def test_prod_requests_are_without_mid_pods() -> None:
    pods = {
        "a": pod(),
        "b": pod(priority=MID),
        "c": pod(priority=PriorityClass.NONE),
        "d": pod(active=False),
    }
    assert account(MetricSummary(), pods).prod_request == Pair(200, 2000)


def test_the_system_is_all_that_comes_before() -> None:
    applications = [
        Application(Pair(10, 1), PROD),
        Application(Pair(200, 2), MID),
        Application(Pair(4000, 4), BATCH),
    ]
    found = account(MetricSummary(system=Usage(1, None), applications=applications), {})
    assert (found.system, found.mid_system) == (Pair(211, 3), Pair(11, 1))


def test_zones_bear_pods_where_they_are_bound_and_the_rest_by_size() -> None:
    pods = {"free": pod(400, 400), "bound": pod(50, 50, numa=(1,)), "else": pod(8, 8, numa=(7,))}
    told = MetricSummary(system=Usage(40, 40))
    zones = zone_accounts(told, account(told, pods), Pair(80, 80), TWO)
    assert [one.high.used for one in zones] == [Pair(306, 204), Pair(152, 254)]
    assert [one.system for one in zones] == [Pair(30, 20), Pair(10, 20)]
    assert [one.reserved for one in zones] == [Pair(60, 40), Pair(20, 40)]


def test_the_system_of_a_zone_is_what_was_measured_there() -> None:
    applications = [Application(Pair(400, 400), PROD)]
    told = MetricSummary(system=Usage(40, 40), numa={1: Usage(39, None)}, applications=applications)
    zones = zone_accounts(told, account(told, {}), Pair(), TWO)
    assert [one.system for one in zones] == [Pair(330, 220), Pair(139, 220)]


def test_a_zone_without_memory_bears_none() -> None:
    zones = (Zone("node-0", 0, Pair(1000, 500)), Zone("node-1", 1, Pair(1000, 0)))
    found = zone_accounts(MetricSummary(), account(MetricSummary(), {"p": pod()}), Pair(), zones)
    assert [one.high.used for one in found] == [Pair(50, 1000), Pair(50, 0)]


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
    zones = [Zone(f"node-{place}", place, Pair(*size)) for place, size in enumerate(sizes)]
    node = account(MetricSummary(), pods)
    found = zone_accounts(MetricSummary(), node, Pair(), zones)
    for place in (0, 1):
        if any(size[place] for size in sizes):
            least = node.high.used[place]
            assert sum(one.high.used[place] for one in found) >= least
