"""Allocation of a node's CPUs and NUMA nodes to a pod. No IO.

Koordinator's ``plugins/nodenumaresource/resource_manager.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from koord_model.demand import Amounts
from koord_model.keys import CPU

from koord_scheduler.extension_points.topology_hints import Mask, bits
from koord_scheduler.plugins.node_numa_resource.cpu_accumulator import (
    CPUPool,
    CPUSet,
    take_preferred_cpus,
)
from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology
from koord_scheduler.plugins.node_numa_resource.free_cpus import CPUPreferences, TakenCPU
from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine
from koord_scheduler.plugins.node_numa_resource.node_allocation import (
    NodeAllocation,
    NUMAAllocation,
    ZoneAmounts,
)
from koord_scheduler.plugins.node_numa_resource.policies import (
    CPUBindPolicy,
    CPUExclusivePolicy,
    NUMAAllocateStrategy,
)
from koord_scheduler.plugins.node_numa_resource.reserved_cpus import NOTHING_RESERVED, ReservedNUMA

NOT_ENOUGH_CPUS = "not enough cpus available to satisfy request"
Zones = dict[int, dict[str, int]]


class CannotAllocate(Exception):  # noqa: N818 - an outcome, not an error
    """A node does not have what a pod asks for; ``reasons`` say what, in Koordinator's words."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True)
class NUMARequest:
    """A pod's request of one node.

    ``amounts`` are its requests, ``amplified`` what they count as where own CPUs are worth more
    than shared ones. It gets ``cpus`` own CPUs if it ``binds``. ``bind_policy`` holds strictly
    where it ``is_required``. Amounts that are ``reusable``, and CPUs that are ``kept`` or
    ``preemptible``, count as free although pods have them: those of a reservation, or of pods that
    will go. It gets CPUs first that are ``kept``.
    """

    amounts: Amounts
    amplified: Amounts
    cpus: int = 0
    binds: bool = False
    bind_policy: CPUBindPolicy = CPUBindPolicy.NONE
    is_required: bool = False
    exclusive: CPUExclusivePolicy = CPUExclusivePolicy.UNSET
    strategy: NUMAAllocateStrategy = NUMAAllocateStrategy.LEAST_ALLOCATED
    reusable: ZoneAmounts = field(default_factory=dict)
    kept: ReservedNUMA = NOTHING_RESERVED
    preemptible: CPUSet = frozenset()


class NodeAllocator:
    """Free part of a node for one pod; computed once, for all its NUMA nodes."""

    def __init__(self, machine: NUMAMachine, had: NodeAllocation, request: NUMARequest) -> None:
        self.machine = machine
        self.request = request
        self.taken = had.taken_cpus((request.kept.cpus, request.preemptible))
        self.free_cpus = _free_cpus(machine, self.taken, request)
        self.free = had.free_in_zones(machine, request.reusable)
        request.kept.limit_zones(self.free)
        if request.is_required:
            self._limit_by_cpus()

    def allocate(self, mask: Mask | None) -> NUMAAllocation:
        """Allocate the pod's part of these NUMA nodes, or, with ``None``, of any.

        Raises:
            CannotAllocate: there is not enough.
        """
        zones = self._distribute(mask)
        cpus = self._take_cpus(zones) if self.request.binds else frozenset()
        given = tuple((node, tuple(sorted(has.items()))) for node, has in sorted(zones.items()))
        return NUMAAllocation(cpus, self.request.exclusive, given)

    def amounts(self, mask: Mask | None) -> Zones:
        """The amounts that ``allocate`` would give, without choosing CPUs where any will do.

        Raises:
            CannotAllocate: there is not enough.
        """
        zones = self._distribute(mask)
        if self.request.binds and self.request.is_required:
            self._take_cpus(zones)
        elif self.request.binds:
            free = self._free_in_node
            parts = (min(free[node], has.get(CPU, 0) // 1000) for node, has in zones.items())
            if (sum(parts) if zones else self.request.cpus) != self.request.cpus:
                raise CannotAllocate(NOT_ENOUGH_CPUS)
            if len(self.free_cpus) < self.request.cpus:
                raise CannotAllocate(NOT_ENOUGH_CPUS)
        return zones

    def _distribute(self, mask: Mask | None) -> Zones:
        if mask is None:
            return {}
        if not self.machine.zones:
            raise CannotAllocate("insufficient resources on NUMA Node")
        return distribute_evenly(self.machine.cpus, self.request, self.free, list(bits(mask)))

    @cached_property
    def _free_in_node(self) -> dict[int, int]:
        """Number of free CPUs in each NUMA node."""
        in_node = self.machine.cpus.in_node
        return {node: len(self.free_cpus & in_node(node)) for node in self.machine.zones}

    def _take_cpus(self, zones: ZoneAmounts) -> CPUSet:
        request = self.request
        if len(self.free_cpus) < request.cpus:
            raise CannotAllocate(NOT_ENOUGH_CPUS)
        if zones:
            found: CPUSet = frozenset()
            for node, has in zones.items():
                free = self.free_cpus & self.machine.cpus.in_node(node)
                found |= self._take(free, min(len(free), has.get(CPU, 0) // 1000))
        else:
            found = self._take(self.free_cpus, request.cpus)
        if len(found) != request.cpus:
            raise CannotAllocate(NOT_ENOUGH_CPUS)
        policy = request.bind_policy
        if request.is_required and not _satisfies(policy, self.machine.cpus, found):
            text = f"insufficient CPUs to satisfy required cpu bind policy {policy.value}"
            raise CannotAllocate(text)
        return found

    def _take(self, free: CPUSet, count: int) -> CPUSet:
        request = self.request
        is_full = request.bind_policy is CPUBindPolicy.FULL_PCPUS
        wants = CPUPreferences(is_full, request.exclusive, request.strategy)
        shares = self.machine.shares
        pool = CPUPool(self.machine.cpus, free, self.taken, request.kept.cpus, shares)
        found = take_preferred_cpus(pool, count, wants)
        if found is None:
            raise CannotAllocate(NOT_ENOUGH_CPUS)
        return found

    def _limit_by_cpus(self) -> None:
        """A NUMA node has no more CPU than there are CPUs that the required policy can use."""
        for node, has in self.free.items():
            if has.get(CPU):
                has[CPU] = min(has[CPU], 1000 * self._free_in_node[node])


def distribute_evenly(
    topology: CPUTopology, request: NUMARequest, free: ZoneAmounts, nodes: Collection[int]
) -> Zones:
    """The requests, shared out over NUMA nodes: those that have least give first, up to a share.

    Koordinator's ``tryBestToDistributeEvenly``. What no NUMA node counts is not shared out.

    Raises:
        CannotAllocate: these NUMA nodes do not have enough.
    """
    counted = set(chain.from_iterable(free.values()))
    given: Zones = {}
    lacking = []
    for name, amount in request.amounts.items():
        if name not in counted:
            continue
        left = amount

        def has(node: int, name: str = name) -> int:
            return free.get(node, {}).get(name, 0)

        for place, node in enumerate(sorted(nodes, key=has)):
            part = min(has(node), _share(topology, request, name, left, len(nodes) - place))
            if part:
                given.setdefault(node, {})[name] = part
                left -= part
        if left:
            lacking.append(f"Insufficient NUMA {name}")
    if lacking:
        raise CannotAllocate(*sorted(lacking))
    return dict(sorted(given.items()))


def _share(topology: CPUTopology, request: NUMARequest, name: str, amount: int, nodes: int) -> int:
    """The part of one of so many NUMA nodes: whole CPUs, or cores, if they are to be bound."""
    if name != CPU or not request.binds:
        return amount // nodes
    cpus = -(-amount // 1000)
    if request.is_required and request.bind_policy is CPUBindPolicy.FULL_PCPUS:
        a_core = topology.cpus_per_core
        if nodes == 1 and not topology.has_even_cores:
            return cpus * 1000
        return cpus // a_core // nodes * a_core * 1000
    return cpus // nodes * 1000


def _free_cpus(machine: NUMAMachine, taken: dict[int, TakenCPU], request: NUMARequest) -> CPUSet:
    full = {cpu for cpu, one in taken.items() if one.pods >= machine.shares}
    free = request.kept.limit_cpus(frozenset(machine.cpus.cpus.keys() - full - machine.reserved))
    return _usable(request.bind_policy, machine.cpus, free) if request.is_required else free


def _usable(policy: CPUBindPolicy, topology: CPUTopology, cpus: Iterable[int]) -> CPUSet:
    """Those CPUs that a required policy can use: of whole cores, or the first of each."""
    cores = topology.cores_of(cpus)
    match policy:
        case CPUBindPolicy.FULL_PCPUS:
            whole = (own for core, own in cores.items() if topology.is_whole(core, own))
            return frozenset(chain.from_iterable(whole))
        case CPUBindPolicy.SPREAD_BY_PCPUS:
            return frozenset(own[0] for own in cores.values())
    return frozenset(cpus)


def _satisfies(policy: CPUBindPolicy, topology: CPUTopology, cpus: CPUSet) -> bool:
    cores = topology.cores_of(cpus)
    match policy:
        case CPUBindPolicy.FULL_PCPUS:
            return all(topology.is_whole(core, own) for core, own in cores.items())
        case CPUBindPolicy.SPREAD_BY_PCPUS:
            return len(cores) == len(cpus)
    return True
