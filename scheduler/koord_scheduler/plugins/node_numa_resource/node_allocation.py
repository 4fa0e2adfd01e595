"""Pods' allocations of a node's CPUs and NUMA nodes. No IO.

Koordinator's ``plugins/nodenumaresource/node_allocation.go``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.keys import CPU

from koord_scheduler.plugins.node_numa_resource.free_cpus import TakenCPU
from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine, amplified
from koord_scheduler.plugins.node_numa_resource.policies import CPUExclusivePolicy, NUMANodeStatus

ZoneAmounts = Mapping[int, Amounts]
"""Amounts by NUMA node."""

NO_ZONES: ZoneAmounts = {}


class NUMAAllocation(NamedTuple):
    """Allocation of one pod: CPUs of its own, and amounts of NUMA nodes, in their order."""

    cpus: frozenset[int] = frozenset()
    exclusive: CPUExclusivePolicy = CPUExclusivePolicy.UNSET
    zones: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()

    def __bool__(self) -> bool:
        """True if it is anything."""
        return bool(self.cpus or self.zones)


NO_ALLOCATION = NUMAAllocation()


def subtracted(amounts: Amounts, other: Amounts) -> dict[str, int]:
    """``amounts`` without ``other``, never less than 0; with the resources of both."""
    found = dict.fromkeys(other, 0)
    found |= {name: max(0, amount - other.get(name, 0)) for name, amount in amounts.items()}
    return found


def added(lists: Iterable[Amounts]) -> dict[str, int]:
    """The sums, by resource."""
    found: dict[str, int] = {}
    for one in lists:
        for name, amount in one.items():
            found[name] = found.get(name, 0) + amount
    return found


class NodeAllocation:
    """Allocations of a node's pods; pods without any are left out."""

    def __init__(self, pods: Iterable[NUMAAllocation] = ()) -> None:
        self._pods = list(pods)

    def __iter__(self) -> Iterator[NUMAAllocation]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def content(self) -> Hashable:
        """Equal where pods have the same, in the same order."""
        return tuple(self._pods)

    def add(self, allocation: NUMAAllocation) -> None:
        """One more pod has this."""
        if allocation:
            self._pods.append(allocation)

    def remove(self, allocation: NUMAAllocation) -> None:
        """One pod less has this."""
        if allocation:
            self._pods.remove(allocation)

    def taken_cpus(self, returned: Iterable[frozenset[int]] = ()) -> dict[int, TakenCPU]:
        """The CPUs that pods have, without those that are ``returned``, once for each time."""
        counts: dict[int, int] = defaultdict(int)
        policies = {}
        for pod in self._pods:
            for cpu in pod.cpus:
                counts[cpu] += 1
                policies[cpu] = pod.exclusive
        for cpus in returned:
            for cpu in cpus & counts.keys():
                counts[cpu] -= 1
        return {cpu: TakenCPU(count, policies[cpu]) for cpu, count in counts.items() if count > 0}

    def zones(self, machine: NUMAMachine, reusable: ZoneAmounts = NO_ZONES) -> dict[int, Amounts]:
        """Return pods' amounts of each NUMA node that any has something of, without ``reusable``.

        CPUs of their own count amplified.
        """
        found: dict[int, dict[str, int]] = {}
        for pod in self._pods:
            for node, amounts in pod.zones:
                found[node] = added((found.get(node, {}), dict(amounts)))
        ratio = machine.zone_cpu_ratio
        if ratio > 1:
            bound = self.taken_cpus().keys()
            for node, has in found.items():
                own = 1000 * len(bound & machine.cpus.in_node(node))
                has[CPU] = has.get(CPU, 0) - own + amplified(own, ratio)
        return {node: subtracted(has, reusable.get(node, {})) for node, has in found.items()}

    def free_in_zones(
        self, machine: NUMAMachine, reusable: ZoneAmounts = NO_ZONES
    ) -> dict[int, dict[str, int]]:
        """Return the rest of each NUMA node."""
        taken = self.zones(machine, reusable)
        return {node: subtracted(has, taken.get(node, {})) for node, has in machine.zones.items()}

    def statuses(self, machine: NUMAMachine) -> dict[int, NUMANodeStatus]:
        """Return the users of each NUMA node's CPUs; without those where nobody has any."""
        found: dict[int, NUMANodeStatus] = {}
        for pod in self._pods:
            nodes = {machine.cpus.cpus[cpu].node for cpu in pod.cpus if cpu in machine.cpus.cpus}
            status = NUMANodeStatus.SHARED if len(nodes) > 1 else NUMANodeStatus.SINGLE
            for node in nodes:
                if found.get(node) is not NUMANodeStatus.SHARED:
                    found[node] = status
        return found
