"""The logical CPUs of a node, by core, NUMA node and socket. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class LogicalCPU(NamedTuple):
    """One logical CPU; ``core`` counts within its socket."""

    id: int
    core: int
    node: int
    socket: int

    @property
    def core_key(self) -> tuple[int, int]:
        """The core, unique on the machine, in the order of sockets."""
        return self.socket, self.core


class CPUTopology:
    """All logical CPUs of a node. The counts by core, NUMA node and socket are means, rounded down.

    Koordinator compares requests with these means; on machines with cores of several kinds
    they are those of no core.
    """

    def __init__(self, cpus: Iterable[LogicalCPU] = ()) -> None:
        self.cpus = {one.id: one for one in cpus}
        everything = self.cpus.values()
        self.cores = len({(one.socket, one.node, one.core) for one in everything})
        self.nodes = len({(one.socket, one.node) for one in everything})
        self.sockets = len({one.socket for one in everything})
        count = len(self.cpus)
        self.cpus_per_core = count // self.cores if count else 0
        self.cpus_per_node = count // self.nodes if count else 0
        self.cpus_per_socket = count // self.sockets if count else 0
        of_nodes: dict[int, set[int]] = defaultdict(set)
        for one in everything:
            of_nodes[one.node].add(one.id)
        self._of_node = {node: frozenset(ids) for node, ids in of_nodes.items()}

    def __bool__(self) -> bool:
        """Whether there are any CPUs."""
        return bool(self.cpus)

    def in_node(self, node: int) -> frozenset[int]:
        """The CPUs of a NUMA node."""
        return self._of_node.get(node, frozenset())

    def cores_of(self, cpus: Iterable[int]) -> dict[tuple[int, int], list[int]]:
        """These CPUs by core, in rising order; those that the node does not have are left out."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for cpu in sorted(cpus):
            if cpu in self.cpus:
                found[self.cpus[cpu].core_key].append(cpu)
        return found
