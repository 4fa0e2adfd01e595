"""CPU and memory of the node: counters that jump, CPUs and NUMA nodes that come and go."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.metrics_advisor.collectors import noderesource
from koordlet.metrics_advisor.contract.collector import UnavailableError

from tests.koordlet.metrics_advisor.collectors.used_node import KIB, Rounds, UsedNode, values

CPU, NUMA_CPU, NUMA_MEMORY = "node_cpu_usage", "node_numa_cpu_usage", "node_numa_memory_usage"


@pytest.fixture
def node() -> UsedNode:
    """Four CPUs on two NUMA nodes."""
    made = UsedNode()
    made.put_cpus({0: 0, 1: 0, 2: 0, 3: 0})
    made.put_memory(1000, 200, 600)
    made.put_numa(0, "0-1", 300)
    made.put_numa(1, "2-3", 70)
    return made


@pytest.fixture
def rounds(node: UsedNode) -> Rounds:
    return Rounds(noderesource.Collector(node.sources))


@pytest.mark.parametrize("rate", [100, 1000])
def test_memory_is_known_at_once_and_cpu_at_the_second_look(node: UsedNode, rate: int) -> None:
    sources = dataclasses.replace(node.sources, jiffies_per_second=rate)
    rounds = Rounds(noderesource.Collector(sources))
    memory = {
        ("node_memory_usage",): 400 * KIB,
        (NUMA_MEMORY, "0"): 300 * KIB,
        (NUMA_MEMORY, "1"): 70 * KIB,
    }
    found = rounds.look()
    assert (values(found), found.partial) == (memory, ())
    node.put_cpus({0: rate, 1: rate // 2, 2: 0, 3: rate // 10})
    assert values(rounds.look(seconds=2.0)) == memory | {
        (CPU,): pytest.approx(0.8),
        (NUMA_CPU, "0"): pytest.approx(0.75),
        (NUMA_CPU, "1"): pytest.approx(0.05),
    }


def test_huge_pages_are_used_memory_and_are_named(node: UsedNode, rounds: Rounds) -> None:
    meminfo = node.tree.read("/proc/meminfo") + "Hugetlb: 100 kB\n"
    node.tree.texts["/proc/meminfo"] = meminfo
    found = values(rounds.look())
    assert found["node_memory_usage",] == 400 * KIB
    assert found["node_memory_huge_pages",] == 100 * KIB


def test_a_cpu_that_goes_offline_and_comes_back(node: UsedNode, rounds: Rounds) -> None:
    node.put_cpus(dict.fromkeys(range(4), 100_000))
    rounds.look()
    # The kernel's sum goes on with CPUs that do not run; its list of a node's does not.
    node.put_cpus({0: 100_050, 1: 100_050, 2: 100_020}, whole=400_120)
    node.put_numa(1, "2", 70)
    found = values(rounds.look())
    assert (found[CPU,], found[NUMA_CPU, "0"]) == pytest.approx((1.2, 1.0))
    assert found[NUMA_CPU, "1"] == pytest.approx(0.2)
    node.put_cpus({0: 100_100, 1: 100_100, 2: 100_040, 3: 0}, whole=400_240)
    node.put_numa(1, "2-3", 70)
    found = values(rounds.look())
    assert found[CPU,] == pytest.approx(1.2)
    assert found[NUMA_CPU, "1"] == pytest.approx(0.2)
    node.put_cpus({0: 100_100, 1: 100_100, 2: 100_040, 3: 70}, whole=400_310)
    assert values(rounds.look())[NUMA_CPU, "1"] == pytest.approx(0.7)


def test_a_sum_of_running_cpus_alone_neither_falls_nor_leaps(
    node: UsedNode, rounds: Rounds
) -> None:
    node.put_cpus(dict.fromkeys(range(4), 100_000))
    rounds.look()
    node.put_cpus({0: 100_010, 1: 100_010, 2: 100_010})
    assert (CPU,) not in values(rounds.look())
    node.put_cpus(dict.fromkeys(range(4), 100_020))
    assert (CPU,) not in values(rounds.look())
    node.put_cpus(dict.fromkeys(range(4), 100_030))
    assert values(rounds.look())[CPU,] == pytest.approx(0.4)


def test_most_cpus_go_offline_after_a_busy_second(node: UsedNode, rounds: Rounds) -> None:
    rounds.look()
    node.put_cpus({0: 100}, whole=400)
    assert values(rounds.look())[CPU,] == pytest.approx(4.0)


def test_a_numa_node_all_of_whose_cpus_are_new_has_no_cpu_yet(
    node: UsedNode, rounds: Rounds
) -> None:
    node.put_numa(1, "", 70)
    node.put_cpus({0: 0, 1: 0})
    rounds.look()
    node.put_numa(1, "2-3", 70)
    node.put_cpus({0: 50, 1: 0, 2: 9, 3: 9}, whole=50)
    assert values(rounds.look(), NUMA_CPU) == {("0",): pytest.approx(0.5)}


def test_sparse_and_cpuless_nodes(node: UsedNode, rounds: Rounds) -> None:
    node.put_numa(8, "", 5)
    assert values(rounds.look(), NUMA_CPU) == {}
    node.put_cpus({0: 50, 1: 0, 2: 0, 3: 0})
    found = rounds.look()
    assert values(found, NUMA_CPU)["8",] == 0.0
    assert values(found, NUMA_MEMORY)["8",] == 5 * KIB


def test_a_numa_node_taken_out_of_the_machine(node: UsedNode, rounds: Rounds) -> None:
    rounds.look()
    node.tree.remove("/sys/devices/system/node/node1")
    [line] = rounds.look().partial
    assert "node1/meminfo: No such file" in line
    found = rounds.look()
    assert found.partial == ()
    assert values(found, NUMA_MEMORY) == {("0",): 300 * KIB}


def test_a_kernel_without_numa(node: UsedNode, rounds: Rounds) -> None:
    node.tree.remove("/sys/devices/system/node")
    rounds.look()
    node.put_cpus({0: 50, 1: 0, 2: 0, 3: 0})
    found = rounds.look()
    assert found.partial == ()
    assert set(values(found)) == {(CPU,), ("node_memory_usage",)}


def test_a_kernel_without_available_memory(node: UsedNode, rounds: Rounds) -> None:
    node.put_memory(1000, 200, None)
    with pytest.raises(UnavailableError, match=r"/proc/meminfo has no MemAvailable"):
        rounds.look()


@pytest.mark.parametrize(
    ("path", "lost"),
    [
        ("/proc/stat", {CPU, NUMA_CPU}),
        ("/proc/meminfo", {"node_memory_usage"}),
        ("/sys/devices/system/node/node1/meminfo", set()),
        ("/sys/devices/system/node/node1/cpulist", {NUMA_CPU, NUMA_MEMORY}),
    ],
)
@pytest.mark.parametrize("text", ["garbage\n", OSError(5, "Input/output error")])
def test_what_cannot_be_read_harms_no_other(
    node: UsedNode, path: str, lost: set[str], text: str | OSError
) -> None:
    rounds = Rounds(noderesource.Collector(node.sources))
    all_of_them = {CPU, "node_memory_usage", NUMA_CPU, NUMA_MEMORY}
    node.tree.texts[path] = text
    rounds.look()
    if path != "/proc/stat":
        node.put_cpus({0: 50, 1: 0, 2: 0, 3: 0})
    found = rounds.look()
    assert {series.kind for series, _ in found.samples} == all_of_them - lost
    [line] = found.partial
    assert "\n" not in line
    assert path in line or "NUMA nodes" in line


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 5), st.integers(0, 1 << 60), min_size=1),
            st.floats(0, 30),
        ),
        max_size=8,
    )
)
def test_cpu_is_never_less_than_none_nor_more_than_there_is(
    steps: list[tuple[dict[int, int], float]],
) -> None:
    node = UsedNode()
    node.put_memory(1000, 200, 600)
    node.put_numa(0, "0-2", 1)
    node.put_numa(4, "3-5", 1)
    rounds = Rounds(noderesource.Collector(node.sources))
    for jiffies, seconds in steps:
        node.put_cpus(jiffies)
        found = values(rounds.look(seconds=seconds))
        assert all(math.isfinite(value) and value >= 0 for value in found.values())
        assert (rounds.newest.total(CPU) or 0.0) <= 12
