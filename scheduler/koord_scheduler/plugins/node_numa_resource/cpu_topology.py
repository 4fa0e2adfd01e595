"""The logical CPUs of a node, by core, NUMA node and socket. No IO."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from math import gcd
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
    """All logical CPUs of a node, and how many the largest core has, and NUMA node and socket.

    Cores may differ: there are machines with cores of several kinds, and CPUs that are off line.
    Koordinator compares with means, which are then those of no core; where all cores are alike, so
    do we for NUMA nodes and sockets. ``core_step`` divides the sizes of all cores.
    """

    def __init__(self, cpus: Iterable[LogicalCPU] = ()) -> None:
        self.cpus = {one.id: one for one in cpus}
        everything = self.cpus.values()
        self.cores = len({(one.socket, one.node, one.core) for one in everything})
        self.nodes = len({(one.socket, one.node) for one in everything})
        self.sockets = len({one.socket for one in everything})
        self._core_sizes = Counter(one.core_key for one in everything)
        sizes = self._core_sizes.values()
        self.core_step = gcd(*sizes)
        self.cpus_per_core = max(sizes, default=0)
        a_part = _mean if self.has_even_cores else _most
        self.cpus_per_node = a_part((one.socket, one.node) for one in everything)
        self.cpus_per_socket = a_part(one.socket for one in everything)
        of_nodes: dict[int, set[int]] = defaultdict(set)
        for one in everything:
            of_nodes[one.node].add(one.id)
        self._of_node = {node: frozenset(ids) for node, ids in of_nodes.items()}

    def __bool__(self) -> bool:
        """True if there are any CPUs."""
        return bool(self.cpus)

    @property
    def has_even_cores(self) -> bool:
        """True if all cores have as many CPUs."""
        return self.core_step == self.cpus_per_core

    def is_whole(self, core: tuple[int, int], cpus: Sequence[int]) -> bool:
        """True if these CPUs of a core are all that it has."""
        return len(cpus) == self._core_sizes[core]

    def whole_cores(self, cpus: Sequence[int], most: int) -> list[int]:
        """As many of these CPUs, which are of whole cores, as make up cores again, but no more.

        Those of large cores come first.
        """
        if self.has_even_cores:
            return list(cpus[: most - most % max(self.core_step, 1)])
        cores = sorted(self.cores_of(cpus).values(), key=len, reverse=True)
        reached: dict[int, list[int]] = {0: []}
        for core in cores:
            for total in sorted(reached, reverse=True):
                if total + len(core) <= most:
                    reached.setdefault(total + len(core), [*reached[total], *core])
        return reached[max(reached)]

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


def _most(groups: Iterable[Hashable]) -> int:
    return max(Counter(groups).values(), default=0)


def _mean(groups: Iterable[Hashable]) -> int:
    sizes = Counter(groups)
    return sizes.total() // len(sizes) if sizes else 0
