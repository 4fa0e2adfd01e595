"""CPUs and NUMA nodes that are reserved, and what is left of them. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from koord_scheduler.numa.node_allocation import NUMAAllocation, added, subtracted


class ReservedNUMA(NamedTuple):
    """What reservations keep for a pod, which gets these CPUs first.

    If they are ``restricted``, it gets no other CPUs, and of NUMA nodes no more than that.
    """

    allocations: tuple[NUMAAllocation, ...] = ()
    restricted: bool = False

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs of all of them."""
        return frozenset().union(*(one.cpus for one in self.allocations))

    def allows(self, found: NUMAAllocation) -> bool:
        """Whether a pod may get this."""
        if not self.restricted:
            return True
        has = {node: dict(amounts) for one in self.allocations for node, amounts in one.zones}
        is_within = all(
            has.get(node, {}).get(name, 0) >= amount
            for node, amounts in found.zones
            for name, amount in amounts
        )
        return (not self.cpus or found.cpus <= self.cpus) and (not has or is_within)


NOTHING_RESERVED = ReservedNUMA()


def what_is_left(reserved: NUMAAllocation, owners: Iterable[NUMAAllocation]) -> NUMAAllocation:
    """What is reserved without what owners have of it."""
    had = list(owners)
    cpus = reserved.cpus.difference(*(one.cpus for one in had))
    zones = tuple(
        (node, tuple(sorted(subtracted(dict(amounts), _of_node(had, node)).items())))
        for node, amounts in reserved.zones
    )
    return reserved._replace(cpus=cpus, zones=zones)


def _of_node(had: Iterable[NUMAAllocation], node: int) -> dict[str, int]:
    return added(dict(amounts) for one in had for number, amounts in one.zones if number == node)
