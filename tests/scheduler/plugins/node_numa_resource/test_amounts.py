"""Amounts of nodes and NUMA nodes: how good what is left is, and what is lacking."""

from __future__ import annotations

import pytest
from koord_scheduler.plugins.node_numa_resource.allocator import NodeAllocator, NUMARequest
from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology, LogicalCPU
from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine
from koord_scheduler.plugins.node_numa_resource.nearest_zone import nearest_zone
from koord_scheduler.plugins.node_numa_resource.node_allocation import (
    NodeAllocation,
    NUMAAllocation,
)
from koord_scheduler.plugins.node_numa_resource.policies import CPUExclusivePolicy
from koord_scheduler.plugins.node_numa_resource.scores import AmountScorer
from koord_scheduler.state.resource_scores import least_taken, most_taken

GIB = 1 << 30


@pytest.mark.parametrize(
    ("strategy", "taken", "requests", "score"),
    [
        (least_taken, {"cpu": 2}, {"cpu": 3, "memory": 5}, (50 + 3 * 75) // 4),
        (least_taken, {"cpu": 9}, {"cpu": 3}, (0 + 3 * 100) // 4),
        (most_taken, {"cpu": 9}, {"cpu": 3}, (100 + 3 * 0) // 4),
        (most_taken, {"memory": 10}, {"cpu": 1}, (10 + 3 * 50) // 4),
        # Not every node has these: they count for pods that ask for some.
        (least_taken, {}, {"cpu": 0, "x/gpu": 1}, (100 + 3 * 100 + 5 * 50) // 9),
        (least_taken, {}, {"cpu": 0, "x/none": 1}, 100),
    ],
)
def test_the_mean_by_weights(
    strategy: object, taken: dict[str, int], requests: dict[str, int], score: int
) -> None:
    weights = {"cpu": 1, "memory": 3, "x/gpu": 5, "x/none": 7}
    scorer = AmountScorer(strategy, weights)  # type: ignore[arg-type]
    assert scorer.score(taken, {"cpu": 10, "memory": 20, "x/gpu": 2}, requests) == score


def test_nothing_counts_where_there_is_nothing() -> None:
    assert AmountScorer().score({}, {}, {"cpu": 1}) == 0


MACHINE = NUMAMachine(
    CPUTopology(LogicalCPU(cpu, cpu, int(cpu > 1), 0) for cpu in range(10)),
    zones={0: {"cpu": 2000, "memory": 4 * GIB}, 1: {"cpu": 8000, "memory": 4 * GIB}},
)


@pytest.mark.parametrize(
    ("amounts", "lacks"),
    [
        # Three CPUs of eight are nearer than nine of two.
        ({"cpu": 11_000}, "NUMA node 1 lacks 3 cpu"),
        ({"cpu": 11_000, "memory": 4 * GIB, "x/gpu": 1}, "NUMA node 1 lacks 3 cpu"),
        ({"cpu": 8000, "memory": 5 * GIB}, "NUMA node 1 lacks 1Gi memory"),
        ({"cpu": 8000, "memory": 4 * GIB}, ""),
    ],
)
def test_the_numa_node_that_lacks_the_least_of_what_it_has(
    amounts: dict[str, int], lacks: str
) -> None:
    request = NUMARequest(amounts, amounts)
    assert nearest_zone(NodeAllocator(MACHINE, NodeAllocation(), request), by_zone=True) == lacks
    assert nearest_zone(NodeAllocator(MACHINE, NodeAllocation(), request), by_zone=False) == ""


def test_cpus_that_pods_have_for_themselves_are_lacking_one_by_one() -> None:
    had = NodeAllocation([NUMAAllocation(frozenset(range(3, 10)), CPUExclusivePolicy.UNSET, ())])
    amounts = {"cpu": 4000}
    request = NUMARequest(amounts, amounts, cpus=4, binds=True)
    allocator = NodeAllocator(MACHINE, had, request)
    assert nearest_zone(allocator, by_zone=False) == "3 of 4 CPUs are free"
    assert nearest_zone(allocator, by_zone=True) == "NUMA node 1 lacks 3 cpu"
