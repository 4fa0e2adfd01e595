"""Whatever comes, goes and is resized, pods have what they asked for, and nobody else has it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from koord_scheduler.numa.cpu_topology import CPUTopology, LogicalCPU
from koord_scheduler.numa.machine import NUMAMachine
from koord_scheduler.numa.node_allocation import NodeAllocation, NUMAAllocation
from koord_scheduler.numa.placement import NodePlacement
from koord_scheduler.numa.pod_needs import NUMASettings, PodNeeds, pod_needs
from koord_scheduler.numa.pod_requirements import NUMARequirements
from koord_scheduler.numa.policies import (
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
    topology = CPUTopology(cpus)
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
        assert {len(core) for core in cores.values()} <= {machine.cpus.cpus_per_core}
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


@settings(max_examples=150)
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
