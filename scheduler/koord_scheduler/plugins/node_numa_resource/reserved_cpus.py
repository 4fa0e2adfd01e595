"""CPUs and NUMA nodes that are reserved, and what is left of them. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from koord_scheduler.plugins.node_numa_resource.node_allocation import (
    NUMAAllocation,
    ZoneAmounts,
    added,
    subtracted,
)


class ReservedNUMA(NamedTuple):
    """Reservations' allocations for a pod, which gets these CPUs first.

    If they are ``restricted``, it gets no other CPUs, and of NUMA nodes no more than that.
    """

    allocations: tuple[NUMAAllocation, ...] = ()
    restricted: bool = False

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs of all of them."""
        return frozenset().union(*(allocation.cpus for allocation in self.allocations))

    @property
    def zones(self) -> ZoneAmounts:
        """The amounts of NUMA nodes of all of them."""
        nodes = {node for allocation in self.allocations for node, _ in allocation.zones}
        return {node: _of_node(self.allocations, node) for node in nodes}

    def limit_cpus(self, free: frozenset[int]) -> frozenset[int]:
        """Those of ``free`` CPUs that the pod may get."""
        return free & self.cpus if self.restricted and self.cpus else free

    def limit_zones(self, free: Mapping[int, dict[str, int]]) -> None:
        """Leave of ``free`` what the pod may get; what is reserved nowhere, it may."""
        zones = self.zones if self.restricted else {}
        for name in {name for amounts in zones.values() for name in amounts}:
            for node, has in free.items():
                has[name] = min(has.get(name, 0), zones.get(node, {}).get(name, 0))


NOTHING_RESERVED = ReservedNUMA()


def what_is_left(reserved: NUMAAllocation, owners: Iterable[NUMAAllocation]) -> NUMAAllocation:
    """Return the reserved allocation without the owners' part of it."""
    had = list(owners)
    cpus = reserved.cpus.difference(*(one.cpus for one in had))
    zones = tuple(
        (node, tuple(sorted(subtracted(dict(amounts), _of_node(had, node)).items())))
        for node, amounts in reserved.zones
    )
    return reserved._replace(cpus=cpus, zones=zones)


def _of_node(had: Iterable[NUMAAllocation], node: int) -> dict[str, int]:
    return added(dict(amounts) for one in had for number, amounts in one.zones if number == node)
