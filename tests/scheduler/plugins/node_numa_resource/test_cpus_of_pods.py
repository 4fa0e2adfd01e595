"""Whatever comes, goes and is resized, pods have what they asked for, and nobody else has it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.cpuset import render
from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology, LogicalCPU
from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine
from koord_scheduler.plugins.node_numa_resource.node_allocation import (
    NodeAllocation,
    NUMAAllocation,
)
from koord_scheduler.plugins.node_numa_resource.placement import NodePlacement, NUMARejection
from koord_scheduler.plugins.node_numa_resource.pod_needs import NUMASettings, PodNeeds, pod_needs
from koord_scheduler.plugins.node_numa_resource.pod_requirements import NUMARequirements
from koord_scheduler.plugins.node_numa_resource.policies import (
    CPUBindPolicy,
    CPUExclusivePolicy,
    NUMAAllocateStrategy,
    NUMAExclusive,
    NUMATopologyPolicy,
)

GIB = 1 << 30
REQUIRED = st.sampled_from(
    [CPUBindPolicy.NONE, CPUBindPolicy.FULL_PCPUS, CPUBindPolicy.SPREAD_BY_PCPUS]
)


class Step(NamedTuple):
    """A pod comes or is resized; without CPUs it goes."""

    uid: str
    cpus: int
    memory: int
    binds: bool
    required: CPUBindPolicy
    exclusive: CPUExclusivePolicy
    policy: NUMATopologyPolicy

    @property
    def needs(self) -> PodNeeds:
        says = NUMARequirements(
            self.binds, self.required, exclusive=self.exclusive, topology_policy=self.policy
        )
        amounts = {"cpu": 1000 * self.cpus, "memory": self.memory * GIB}
        needs = pod_needs(amounts, says, NUMASettings())
        assert isinstance(needs, PodNeeds)
        return needs


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from("abcdef"),
        st.integers(0, 6),
        st.integers(0, 6),
        st.booleans(),
        REQUIRED,
        st.sampled_from(CPUExclusivePolicy),
        st.sampled_from(NUMATopologyPolicy),
    ),
    max_size=12,
)


@st.composite
def machines(draw: st.DrawFn) -> NUMAMachine:
    sockets, nodes, cores, threads = (draw(st.integers(1, most)) for most in (2, 2, 3, 2))
    cpus = [
        LogicalCPU(
            ((socket * nodes + node) * cores + core) * threads + thread,
            node * cores + core,
            socket * nodes + node,
            socket,
        )
        for socket in range(sockets)
        for node in range(nodes)
        for core in range(cores)
        for thread in range(threads)
    ]
    off_line = draw(st.sets(st.integers(1, len(cpus)), max_size=3))
    topology = CPUTopology(one for one in cpus if one.id not in off_line)
    reserved = draw(st.frozensets(st.sampled_from(sorted(topology.cpus)), max_size=2))
    zones = {
        node: {"cpu": 1000 * len(topology.in_node(node) - reserved), "memory": 8 * GIB}
        for node in range(sockets * nodes)
    }
    return NUMAMachine(
        topology,
        reserved,
        zones,
        strategy=draw(st.sampled_from(NUMAAllocateStrategy)),
        shares=draw(st.sampled_from([1, 1, 2])),
    )


def has_what_it_asked_for(step: Step, machine: NUMAMachine, got: NUMAAllocation) -> None:
    placement = NodePlacement(step.needs, machine, NodeAllocation(), NUMASettings())
    assert len(got.cpus) == (step.cpus if placement.binds else 0)
    cores = machine.cpus.cores_of(got.cpus)
    if placement.binds and step.required is CPUBindPolicy.FULL_PCPUS:
        assert all(machine.cpus.is_whole(core, own) for core, own in cores.items())
    if placement.binds and step.required is CPUBindPolicy.SPREAD_BY_PCPUS:
        assert len(cores) == len(got.cpus)
    for node, has in got.zones:
        if got.cpus:
            assert 1000 * len(got.cpus & machine.cpus.in_node(node)) == dict(has).get("cpu", 0)
    if got.zones:
        given_memory = sum(dict(has).get("memory", 0) for _, has in got.zones)
        assert given_memory == step.memory * GIB
    if step.policy is NUMATopologyPolicy.SINGLE_NUMA_NODE:
        assert len(got.zones) <= 1


@given(machines(), STEPS)
def test_pods_never_have_the_same_cpus_or_more_than_there_is(
    machine: NUMAMachine, steps: list[Step]
) -> None:
    had = NodeAllocation()
    has_now: dict[str, NUMAAllocation] = {}
    for step in steps:
        had.remove(has_now.pop(step.uid, NUMAAllocation()))
        if not step.cpus:
            continue
        placement = NodePlacement(step.needs, machine, had, NUMASettings())
        got = placement.reserve()
        if isinstance(got, NUMAAllocation):
            has_what_it_asked_for(step, machine, got)
            had.add(got)
            has_now[step.uid] = got
        pods = Counter(cpu for one in had for cpu in one.cpus)
        assert not pods or max(pods.values()) <= machine.shares
        assert pods.keys() <= machine.cpus.cpus.keys() - machine.reserved
        for node, has in had.zones(machine).items():
            assert all(has[name] <= machine.zones[node][name] for name in has)


def test_pods_on_one_numa_node_and_on_several_keep_apart() -> None:
    cpus = CPUTopology(LogicalCPU(cpu, cpu // 2, cpu // 4, 0) for cpu in range(8))
    machine = NUMAMachine(cpus, zones={node: {"cpu": 4000, "memory": GIB} for node in (0, 1)})
    had = NodeAllocation()
    had.add(NUMAAllocation(frozenset({0, 4})))
    says = NUMARequirements(True, topology_policy=NUMATopologyPolicy.SINGLE_NUMA_NODE)
    assert not isinstance(_reserve(says, machine, had), NUMAAllocation)
    near = says._replace(numa_exclusive=NUMAExclusive.PREFERRED)
    assert _reserve(near, machine, had) == NUMAAllocation(
        frozenset({2, 3}), zones=((0, (("cpu", 2000),)),)
    )


def _reserve(says: NUMARequirements, machine: NUMAMachine, had: NodeAllocation) -> object:
    needs = pod_needs({"cpu": 2000}, says, NUMASettings())
    assert isinstance(needs, PodNeeds)
    return NodePlacement(needs, machine, had, NUMASettings()).reserve()


def _bound(cpus: int, required: CPUBindPolicy) -> PodNeeds:
    found = pod_needs({"cpu": 1000 * cpus}, NUMARequirements(True, required), NUMASettings())
    assert isinstance(found, PodNeeds)
    return found


def hybrid(twos: int, ones: int, off_line: frozenset[int] = frozenset()) -> CPUTopology:
    """Cores with two CPUs, and then cores with one."""
    cores = [*(core for core in range(twos) for _ in range(2)), *range(twos, twos + ones)]
    cpus = (LogicalCPU(cpu, core, 0, 0) for cpu, core in enumerate(cores))
    return CPUTopology(one for one in cpus if one.id not in off_line)


@pytest.mark.parametrize(
    ("topology", "cpus", "expected"),
    [
        (hybrid(8, 12), 2, "2-3"),
        (hybrid(8, 12), 3, "2-3,16"),
        (hybrid(8, 4), 12, "2-13"),
        (hybrid(8, 12), 26, "2-27"),
        (hybrid(8, 12), 27, ""),
        (hybrid(8, 0, frozenset({15})), 2, "2-3"),
        (hybrid(8, 0, frozenset({15})), 13, "2-14"),
        (hybrid(2, 0), 1, ""),
    ],
)
def test_whole_cores_where_cores_differ(topology: CPUTopology, cpus: int, expected: str) -> None:
    needs = _bound(cpus, CPUBindPolicy.FULL_PCPUS)
    machine = NUMAMachine(topology, frozenset({0}))
    placement = NodePlacement(needs, machine, NodeAllocation(), NUMASettings())
    found = placement.reserve()
    got = "" if placement.conflict or isinstance(found, NUMARejection) else render(found.cpus)
    assert got == expected


@pytest.mark.parametrize(("cpus", "expected"), [(4, "1-2,4,6"), (20, "1-2,4,6,8,10,12,14,16-27")])
def test_one_cpu_of_each_core_where_cores_differ(cpus: int, expected: str) -> None:
    needs = _bound(cpus, CPUBindPolicy.SPREAD_BY_PCPUS)
    machine = NUMAMachine(hybrid(8, 12), frozenset({0}))
    found = NodePlacement(needs, machine, NodeAllocation(), NUMASettings()).reserve()
    assert not isinstance(found, NUMARejection)
    assert render(found.cpus) == expected
