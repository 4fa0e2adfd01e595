"""What is left of the node when pods and host applications are taken off."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.node_slo import HostApplication
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.collectors import (
    sysresource,
)
from koordlet.metrics_advisor.contract.collector import CollectContext, Samples

from tests.koordlet.metrics_advisor.collectors.used_node import (
    Group,
    Rounds,
    UsedNode,
    pod,
    values,
)

APP = HostApplication("app")
CPU, MEMORY = ("sys_cpu_usage",), ("sys_memory_usage",)


def rounds_with(node: UsedNode, reported: dict[tuple[str, ...], float]) -> Rounds:
    """Looks of the collector, while others report these values, by kind and labels."""
    rounds = Rounds(sysresource.Collector(node.sources))
    samples = [Sample(Series(name[0], name[1:]), value) for name, value in reported.items()]
    rounds.newest.keep(Samples(samples), rounds.steady)
    return rounds


REPORTED = {
    ("node_cpu_usage",): 8.0,
    ("node_memory_usage",): 8000.0,
    ("pod_cpu_usage", "u1"): 3.0,
    ("pod_memory_usage", "u1"): 3000.0,
    ("pod_cpu_usage", "u2"): 1.0,
    ("pod_memory_usage", "u2"): 1000.0,
    ("host_application_cpu_usage", "app"): 0.5,
    ("host_application_memory_usage", "app"): 500.0,
}


@pytest.fixture
def node() -> UsedNode:
    return UsedNode()


def only(start: str) -> dict[tuple[str, ...], float]:
    return {name: value for name, value in REPORTED.items() if name[0].startswith(start)}


GREEDY = {("pod_cpu_usage", "u1"): 9.0, ("pod_memory_usage", "u1"): 9e9}


@pytest.mark.parametrize(
    ("reported", "pods", "applications", "expected"),
    [
        (REPORTED, ("u1", "u2"), (APP,), (3.5, 3500.0)),
        (REPORTED, (), (), (8.0, 8000.0)),
        (REPORTED, ("u2",), (), (7.0, 7000.0)),
        (REPORTED, ("u1", "u3"), (), (5.0, 5000.0)),
        (REPORTED | GREEDY, ("u1",), (), (0.0, 0.0)),
        (only("node"), (), (), (8.0, 8000.0)),
        (only("node"), ("u1",), (), None),
        (only("pod"), ("u1",), (), None),
    ],
    ids=["all", "none", "one has ended", "one is new", "greedy", "node", "no pods", "no node"],
)
def test_pods_and_applications_are_taken_off(
    node: UsedNode,
    reported: dict[tuple[str, ...], float],
    pods: tuple[str, ...],
    applications: tuple[HostApplication, ...],
    expected: tuple[float, float] | None,
) -> None:
    rounds = rounds_with(node, reported)
    found = rounds.look(*map(pod, pods), applications=applications)
    assert values(found) == (
        {} if expected is None else dict(zip((CPU, MEMORY), expected, strict=True))
    )
    assert found.partial == ()
    assert rounds.look(*map(pod, pods), seconds=10.0).samples == [], "all is too old"


NUMA_REPORTED = REPORTED | {
    (f"node_numa_{what}_usage", name): value
    for what, values in (("cpu", (6.0, 2.0, 0.0)), ("memory", (1e6, 1e6, 1e6)))
    for name, value in zip(("0", "4", "9"), values, strict=True)
}


@pytest.fixture
def numa() -> UsedNode:
    """Two sparse NUMA nodes, and one without CPUs."""
    made = UsedNode()
    made.put_numa(0, "0-1", 1)
    made.put_numa(4, "2-3", 1)
    made.put_numa(9, "", 1)
    return made


@pytest.mark.parametrize(
    ("used", "shared"),
    [((6.0, 2.0, 0.0), (3.0, 1.0, 0.0)), ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))],
    ids=["busy", "idle"],
)
def test_cpu_is_shared_out_as_the_nodes_are_used(
    numa: UsedNode, used: tuple[float, ...], shared: tuple[float, ...]
) -> None:
    reported = {
        ("node_numa_cpu_usage", name): value for name, value in zip("049", used, strict=True)
    }
    found = rounds_with(numa, NUMA_REPORTED | reported).look(pod(), pod("u2"))
    assert values(found, "sys_numa_cpu_usage") == {
        (name,): value for name, value in zip("049", shared, strict=True)
    }


@pytest.mark.parametrize(
    ("version", "page", "unit"), [(1, 4096, 4096), (1, 65536, 65536), (2, 4096, 1), (2, 65536, 1)]
)
def test_memory_of_groups_is_taken_off_by_node(
    numa: UsedNode, version: int, page: int, unit: int
) -> None:
    node = UsedNode(version, page)
    node.tree.texts |= numa.tree.texts
    node.put("kubepods/podu1", Group(numa={0: 3, 9: 5}))
    node.put("kubepods/podu2", Group(numa={0: 1, 4: 0}))
    node.put("app", Group(numa={4: 999}))
    found = rounds_with(node, NUMA_REPORTED).look(pod(), pod("u2"), applications=(APP,))
    assert values(found, "sys_numa_memory_usage") == {
        ("0",): 1e6 - 4 * unit,
        ("4",): max(1e6 - 999 * unit, 0.0),
        ("9",): 1e6 - 5 * unit,
    }
    assert found.partial == ()
    assert not [path for path in node.tree.reads if path.endswith("c1/memory.numa_stat")]


def test_a_vanished_pod_is_ignored_and_garbage_reported(numa: UsedNode) -> None:
    numa.put("kubepods/podu1", Group(numa={0: 1}))
    numa.put("kubepods/podu2", Group(numa={0: 1}))
    file = numa.path("kubepods/podu2", "memory", "memory.numa_stat")
    numa.tree.texts[file] = "garbage"
    found = rounds_with(numa, NUMA_REPORTED).look(pod(), pod("u2"), pod("u3"))
    assert values(found, "sys_numa_memory_usage")["0",] == 1e6 - 4096
    assert found.partial == (f'{file}: no line "hierarchical_anon"',)


def test_a_kernel_without_memory_by_node(numa: UsedNode) -> None:
    found = rounds_with(numa, NUMA_REPORTED).look(pod())
    assert values(found, "sys_numa_memory_usage") == {}
    assert CPU in values(found)


def test_one_numa_node_needs_no_reading_of_groups(node: UsedNode) -> None:
    node.put_numa(0, "0-3", 1)
    reported = REPORTED | {
        ("node_numa_memory_usage", "0"): 7000.0,
        ("node_numa_cpu_usage", "0"): 8.0,
    }
    found = rounds_with(node, reported).look(pod(), pod("u2"), applications=(APP,))
    assert values(found) == {
        CPU: 3.5,
        MEMORY: 3500.0,
        ("sys_numa_cpu_usage", "0"): 3.5,
        ("sys_numa_memory_usage", "0"): 2500.0,
    }
    assert not [path for path in node.tree.reads if "cgroup" in path]


def test_cpu_lists_that_cannot_be_read_are_reported(numa: UsedNode) -> None:
    numa.tree.texts["/sys/devices/system/node/node4/cpulist"] = "x"
    found = rounds_with(numa, NUMA_REPORTED).look(pod())
    assert values(found) == {CPU: 5.0, MEMORY: 5000.0}
    assert len(found.partial) == 1


@given(
    st.dictionaries(
        st.sampled_from([*NUMA_REPORTED]), st.floats(0, 1e18, allow_nan=False), min_size=1
    )
)
def test_any_inputs_give_amounts(reported: dict[tuple[str, ...], float]) -> None:
    node = UsedNode()
    for number in (0, 4, 9):
        node.put_numa(number, "", 1)
    node.put("kubepods/podu1", Group(numa={0: 3, 9: 5}))
    for value in values(rounds_with(node, reported).look(pod(), applications=(APP,))).values():
        assert math.isfinite(value)
        assert value >= 0


def test_before_pods_are_known_nothing_is_the_systems(node: UsedNode) -> None:
    rounds = rounds_with(node, REPORTED)
    look = CollectContext(0.0, rounds.steady, pods_known=False, latest=rounds.newest)
    assert sysresource.Collector(node.sources).collect(look) == Samples()
