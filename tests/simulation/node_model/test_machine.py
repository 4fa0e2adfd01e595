from __future__ import annotations

import pytest
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo
from koord_simulation.node_model.machine import GIB, SimulatedMachine


def test_second_threads_come_after_all_first_ones() -> None:
    machine = SimulatedMachine(cpus=8, threads_per_core=2, numa_nodes=2)
    assert [one.core for one in machine.processors] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert machine.numa_cpus == {0: frozenset({0, 1, 4, 5}), 1: frozenset({2, 3, 6, 7})}
    assert machine.online == "0-7"


def test_infos_are_what_collectors_find() -> None:
    cpus, memory = SimulatedMachine(cpus=4, memory=8 * GIB, numa_nodes=2, llc_ways=12).infos
    assert isinstance(cpus, NodeCPUInfo)
    assert isinstance(memory, NodeMemoryInfo)
    assert (len(cpus.online), cpus.cbm_mask, cpus.smt) == (4, "fff", True)
    assert (memory.total, [one.memory for one in memory.nodes]) == (8 * GIB, [4 * GIB, 4 * GIB])
    bare = SimulatedMachine(cpus=1, threads_per_core=1, resctrl=False).infos[0]
    assert isinstance(bare, NodeCPUInfo)
    assert (bare.cbm_mask, bare.smt) == ("", False)


@pytest.mark.parametrize(
    ("version", "vendor", "has", "lacks"),
    [
        (2, False, {"memory.high", "cpu.idle"}, {"memory.wmark_ratio", "cpu.bvt_warp_ns"}),
        (1, False, {"memory.memsw.limit_in_bytes"}, {"memory.high", "memory.priority"}),
        (1, True, {"memory.wmark_ratio", "memory.min", "cpu.bvt_warp_ns"}, set()),
    ],
)
def test_knobs_are_those_of_the_kernel(
    version: int, vendor: bool, has: set[str], lacks: set[str]
) -> None:
    knobs = SimulatedMachine(cgroup_version=version, vendor_kernel=vendor).kernel.knobs
    assert has <= knobs
    assert not lacks & knobs


def test_what_is_for_pods_is_the_node_less_what_is_reserved_unless_it_is_named() -> None:
    machine = SimulatedMachine(
        cpus=8, reserved_cpu=1.5, allocatable={"kubernetes.io/batch-cpu": 3000}
    )
    assert machine.for_pods["cpu"] == 6500
    assert machine.for_pods["kubernetes.io/batch-cpu"] == 3000
    assert SimulatedMachine(allocatable={"cpu": 1}).for_pods["cpu"] == 1


@pytest.mark.parametrize("wrong", [{"cpus": 7}, {"cpus": 0}, {"cgroup_version": 3}])
def test_a_machine_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        SimulatedMachine(**wrong)  # type: ignore[arg-type]
