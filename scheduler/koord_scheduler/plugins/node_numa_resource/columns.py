"""The CPUs and NUMA nodes of nodes, and what pods have of them, by row. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine, numa_machine
from koord_scheduler.plugins.node_numa_resource.node_allocation import (
    NodeAllocation,
    NUMAAllocation,
)
from koord_scheduler.plugins.node_numa_resource.node_topology import NodeTopology, node_topology
from koord_scheduler.plugins.node_numa_resource.occupied_machine import (
    OccupiedMachine,
    OccupiedMachines,
)
from koord_scheduler.plugins.node_numa_resource.topology_object import NodeResourceTopology
from koord_scheduler.state.arrays import Mask, Rows, lengthened

_UNKNOWN = NodeTopology()
_PLAIN = NUMAMachine()


class NUMAColumns:
    """What is known of nodes by their NodeResourceTopologies (by name) and Nodes (by row).

    ``has_rules`` says of which nodes labels, annotations or kubelets concern pods that say nothing
    of CPUs or NUMA nodes themselves, ``rules`` how many these are. Unless it ``is_used``, which is
    decided before there are nodes and pods, nothing is kept.
    """

    def __init__(self, length: int) -> None:
        self.is_used = False
        self.has_rules: Mask = np.zeros(length, np.bool_)
        self.rules = 0
        self._reported: dict[str, NodeTopology] = {}
        self._machines: dict[int, NUMAMachine] = {}
        self._ignored: dict[int, tuple[str, ...]] = {}
        self._allocations: defaultdict[int, NodeAllocation] = defaultdict(NodeAllocation)
        self._shared = OccupiedMachines()
        self._occupied: dict[int, OccupiedMachine] = {}
        self._numbers: Rows = np.zeros(length, np.intp)  # of these; 0 where it is not known

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self.has_rules = lengthened(self.has_rules, length, fill=False)
        self._numbers = lengthened(self._numbers, length, fill=0)

    def report(self, one: NodeResourceTopology) -> None:
        """A node's object is there, or has changed; ``describe`` has to follow."""
        self._reported[one.metadata.name] = node_topology(one)

    def forget_report(self, name: str) -> None:
        """A node's object is gone; ``describe`` has to follow."""
        self._reported.pop(name, None)

    def describe(
        self, row: int, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> None:
        """What the Node in a row says, in place of what it said."""
        reported = self._reported.get(name, _UNKNOWN)
        ignored: list[str] = list(reported.ignored)
        machine = numa_machine(reported, labels, annotations, ignored)
        has_rules = machine.topology_policy or machine.bind_policy or machine.cpu_ratio > 1
        self._set_rules(row, bool(has_rules))
        self._machines[row] = self._shared.machine(machine)
        self._numbers[row] = 0
        self._ignored[row] = tuple(ignored)
        if reported is _UNKNOWN and not self.has_rules[row] and not ignored:
            self.clear(row)

    def clear(self, row: int) -> None:
        """Nothing is said of a row's node."""
        self._set_rules(row, False)
        self._numbers[row] = 0
        self._occupied.pop(row, None)
        self._machines.pop(row, None)
        self._ignored.pop(row, None)

    def _set_rules(self, row: int, has_rules: bool) -> None:
        self.rules += has_rules - bool(self.has_rules[row])
        self.has_rules[row] = has_rules

    def machine(self, row: int) -> NUMAMachine:
        """The CPUs and NUMA nodes of a row's node; none where they are not known."""
        return self._machines.get(row, _PLAIN)

    def allocation(self, row: int) -> NodeAllocation:
        """What pods have of them."""
        return self._allocations.get(row) or NodeAllocation()

    def occupied(self, rows: Rows) -> tuple[list[OccupiedMachine], Rows]:
        """The different machines of some rows with what pods have, and which of them each row has.

        What rows have in common is the same object, as long as they have.
        """
        for row in rows[self._numbers[rows] == 0].tolist():
            found = self._shared.occupied(self.machine(row), self.allocation(row))
            self._occupied[row], self._numbers[row] = found, found.number
        if len(rows) == 1:
            return [self._occupied[int(rows[0])]], np.zeros(1, np.intp)
        _, first, which = np.unique(self._numbers[rows], return_index=True, return_inverse=True)
        return [self._occupied[row] for row in rows[first].tolist()], which

    def ignored(self, row: int) -> tuple[str, ...]:
        """Lines about what could not be used of what a row's node says."""
        return self._ignored.get(row, ())

    def add(self, row: int, allocation: NUMAAllocation) -> None:
        """A pod on a row's node has this."""
        if allocation:
            self._allocations[row].add(allocation)
            self._numbers[row] = 0

    def remove(self, row: int, allocation: NUMAAllocation) -> None:
        """A pod on a row's node has this no more."""
        if allocation:
            self._allocations[row].remove(allocation)
            self._numbers[row] = 0
            if not len(self._allocations[row]):
                del self._allocations[row]
