"""A node's machine together with what pods have of it; alike ones are one. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine
from koord_scheduler.plugins.node_numa_resource.node_allocation import NodeAllocation


@dataclass(frozen=True, eq=False)
class OccupiedMachine:
    """A machine, and what pods have of it; it does not change. ``number`` is its own."""

    machine: NUMAMachine
    had: NodeAllocation
    number: int


class OccupiedMachines:
    """One for all nodes with equal machines whose pods have the same, as long as there are any."""

    def __init__(self) -> None:
        self._machines: WeakValueDictionary[Hashable, NUMAMachine] = WeakValueDictionary()
        self._occupied: WeakValueDictionary[Hashable, OccupiedMachine] = WeakValueDictionary()
        self._made = 0

    def machine(self, numa_machine: NUMAMachine) -> NUMAMachine:
        """The one that stands for all machines like this."""
        return self._machines.setdefault(numa_machine.content, numa_machine)

    def occupied(self, machine: NUMAMachine, had: NodeAllocation) -> OccupiedMachine:
        """That of a machine that stands for all like it."""
        key = machine, had.content
        found = self._occupied.get(key)
        if found is None:
            self._made += 1
            found = OccupiedMachine(machine, NodeAllocation(had), self._made)
            self._occupied[key] = found
        return found
