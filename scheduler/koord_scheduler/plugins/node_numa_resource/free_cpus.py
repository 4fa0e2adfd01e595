"""Free CPUs of a node, grouped and ordered as pods take them. No IO.

The orders are those of Koordinator's ``cpu_accumulator.go``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology, LogicalCPU
from koord_scheduler.plugins.node_numa_resource.policies import (
    CPUExclusivePolicy,
    NUMAAllocateStrategy,
)


class TakenCPU(NamedTuple):
    """Number of pods on a CPU, and the exclusive policy of the last of them."""

    pods: int
    exclusive: CPUExclusivePolicy = CPUExclusivePolicy.UNSET


class CPUPreferences(NamedTuple):
    """A pod's preferences about its CPUs beside their number."""

    full_cores: bool
    exclusive: CPUExclusivePolicy = CPUExclusivePolicy.UNSET
    strategy: NUMAAllocateStrategy = NUMAAllocateStrategy.LEAST_ALLOCATED


class FreeCPUs:
    """The CPUs that a pod may take, while it takes them.

    ``taken`` are those of other pods: a CPU may be free although up to ``shares`` - 1 pods have it.
    """

    def __init__(
        self,
        topology: CPUTopology,
        free: Iterable[int],
        taken: Mapping[int, TakenCPU],
        wants: CPUPreferences,
        shares: int = 1,
    ) -> None:
        self.topology = topology
        self.free = {cpu: topology.cpus[cpu] for cpu in sorted(free) if cpu in topology.cpus}
        self.taken: set[int] = set()
        self._pods = {cpu: one.pods for cpu, one in taken.items()} if shares > 1 else {}
        self._exclusive = wants.exclusive
        # The lowest key comes first: few free CPUs, or many.
        is_most = wants.strategy is NUMAAllocateStrategy.MOST_ALLOCATED
        self._sign = 1 if is_most else -1
        here = [(topology.cpus[cpu], one) for cpu, one in taken.items() if cpu in topology.cpus]
        self._cores = {
            cpu.core_key for cpu, one in here if one.exclusive is CPUExclusivePolicy.PCPU_LEVEL
        }
        self._nodes = {
            cpu.node for cpu, one in here if one.exclusive is CPUExclusivePolicy.NUMA_NODE_LEVEL
        }

    def take(self, cpus: Iterable[int]) -> None:
        """These CPUs are the pod's."""
        for cpu in cpus:
            one = self.free.pop(cpu)
            self.taken.add(cpu)
            if self._exclusive is CPUExclusivePolicy.PCPU_LEVEL:
                self._cores.add(one.core_key)
            elif self._exclusive is CPUExclusivePolicy.NUMA_NODE_LEVEL:
                self._nodes.add(one.node)

    def full_cores_by_node(self, *, keep_apart: bool) -> list[list[int]]:
        """The CPUs of whole free cores, by NUMA node.

        With ``keep_apart``, without NUMA nodes of others with the same exclusive policy.
        """
        here = [one for one in self.free.values() if not keep_apart or not self._shares_node(one)]
        groups = self._full_cores(here, lambda one: one.node)
        sockets = Counter(one.socket for one in here)
        return self._sorted(groups, sockets, {node: len(cpus) for node, cpus in groups.items()})

    def full_cores_by_socket(self) -> list[list[int]]:
        """The CPUs of whole free cores, by socket."""
        groups = self._full_cores(self.free.values(), lambda one: one.socket)
        return [groups[key] for key in sorted(groups, key=lambda key: self._size(groups, key))]

    def by_node(self, *, keep_apart: bool) -> list[list[int]]:
        """Free CPUs by NUMA node.

        With ``keep_apart``, one of each core, and without cores or NUMA nodes of others with the
        same exclusive policy.
        """
        here = [
            one
            for one in self.free.values()
            if not keep_apart or not (self._shares_core(one) or self._shares_node(one))
        ]
        groups = self._grouped(here, lambda one: one.node, one_of_core=keep_apart)
        sizes = Counter(one.node for one in here)
        return self._sorted(groups, Counter(one.socket for one in here), sizes)

    def by_socket(self, *, keep_apart: bool) -> list[list[int]]:
        """Free CPUs by socket; with ``keep_apart``, one of each core that nobody keeps for himself.

        NUMA nodes of others are not left out, as in Koordinator.
        """
        here = [one for one in self.free.values() if not keep_apart or not self._shares_core(one)]
        groups = self._grouped(here, lambda one: one.socket, one_of_core=keep_apart)
        return [groups[key] for key in sorted(groups, key=lambda key: self._size(groups, key))]

    def anywhere(self, *, keep_apart: bool) -> list[int]:
        """Free CPUs of the whole node: first where the pod has some, then cores in part taken."""
        here = [
            one
            for one in self.free.values()
            if not keep_apart or not (self._shares_core(one) or self._shares_node(one))
        ]
        nodes, sockets = Counter(one.node for one in here), Counter(one.socket for one in here)
        own = Counter(self.topology.cpus[cpu].socket for cpu in self.taken)
        cores = self._by_core(here)

        def key(core: tuple[int, int]) -> tuple[object, ...]:
            one = self.topology.cpus[cores[core][0]]
            room = self._sign * sockets[one.socket], self._sign * nodes[one.node]
            return -own[one.socket], room, len(cores[core]), one.socket, self._pods_on(core), core

        return [cpu for core in sorted(cores, key=key) for cpu in self._by_pods(cores[core])]

    def spread(self, cpus: Sequence[int]) -> list[int]:
        """One CPU of each core, then a second one of each, and so on."""
        if len(cpus) <= self.topology.cpus_per_core:
            return list(cpus)
        seen: Counter[tuple[int, int]] = Counter()
        turns = []
        for place, cpu in enumerate(cpus):
            core = self.topology.cpus[cpu].core_key
            turns.append((seen[core], place, cpu))
            seen[core] += 1
        return [cpu for _, _, cpu in sorted(turns)]

    def _shares_core(self, cpu: LogicalCPU) -> bool:
        is_level = self._exclusive is CPUExclusivePolicy.PCPU_LEVEL
        return is_level and cpu.core_key in self._cores

    def _shares_node(self, cpu: LogicalCPU) -> bool:
        is_level = self._exclusive is CPUExclusivePolicy.NUMA_NODE_LEVEL
        return is_level and cpu.node in self._nodes

    def _by_core(self, cpus: Iterable[LogicalCPU]) -> dict[tuple[int, int], list[int]]:
        return self.topology.cores_of(one.id for one in cpus)

    def _full_cores(
        self, cpus: Iterable[LogicalCPU], group_of: Callable[[LogicalCPU], int]
    ) -> dict[int, list[int]]:
        cores = self._by_core(cpus)
        groups: dict[int, list[int]] = defaultdict(list)
        for core in sorted(cores, key=lambda core: (self._pods_on(core), core)):
            if self.topology.is_whole(core, cores[core]):
                groups[group_of(self.free[cores[core][0]])] += cores[core]
        return groups

    def _grouped(
        self,
        cpus: Iterable[LogicalCPU],
        group_of: Callable[[LogicalCPU], int],
        *,
        one_of_core: bool,
    ) -> dict[int, list[int]]:
        groups: dict[int, list[int]] = defaultdict(list)
        for one in cpus:
            groups[group_of(one)].append(one.id)
        for group, ids in groups.items():
            ordered = self._by_pods(ids)
            if one_of_core:
                first = {self.topology.cpus[cpu].core_key: cpu for cpu in reversed(ordered)}
                ordered = [cpu for cpu in ordered if first[self.free[cpu].core_key] == cpu]
            groups[group] = ordered
        return groups

    def _sorted(
        self, groups: Mapping[int, list[int]], sockets: Counter[int], sizes: Mapping[int, int]
    ) -> list[list[int]]:
        def key(node: int) -> tuple[int, int, int]:
            socket = self.free[groups[node][0]].socket
            return self._sign * sizes[node], self._sign * sockets[socket], node

        return [groups[node] for node in sorted(groups, key=key)]

    def _size(self, groups: Mapping[int, list[int]], key: int) -> tuple[int, int]:
        return self._sign * len(groups[key]), key

    def _by_pods(self, cpus: Iterable[int]) -> list[int]:
        return sorted(cpus, key=lambda cpu: (self._pods.get(cpu, 0), cpu))

    def _pods_on(self, core: tuple[int, int]) -> int:
        if not self._pods:
            return 0
        here = (cpu for cpu, one in self.free.items() if one.core_key == core)
        return sum(self._pods.get(cpu, 0) for cpu in here)
