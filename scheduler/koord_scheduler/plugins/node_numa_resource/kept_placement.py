"""Placement of a pod on what a reservation keeps for it on a node. No IO.

Koordinator looks for NUMA nodes as if all that is reserved were free, and gives the pod what one
reservation has of these: the pod fails, or gets something else, and what is reserved stays locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from koord_scheduler.extension_points.kept_room import KeptRoom
from koord_scheduler.extension_points.topology_hints import Mask, mask_of
from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology
from koord_scheduler.plugins.node_numa_resource.placement import NodePlacement, NUMARejection
from koord_scheduler.plugins.node_numa_resource.pod_parts import NUMA_ALLOCATION
from koord_scheduler.plugins.node_numa_resource.reserved_cpus import ReservedNUMA

KeptPlacement = tuple[NodePlacement, KeptRoom]
"""A placement, and what was kept for the pod in it."""


def kept_placement(
    kept: KeptRoom,
    cpus: CPUTopology,
    place: Callable[[KeptRoom, Mask | None], NodePlacement],
    agree: Callable[[Mask, KeptRoom], bool],
) -> KeptPlacement:
    """The first that gives the pod all that it needs; else the last, which says what is lacking.

    It gets nothing but what is reserved; else, unless it is restricted to that, at least something
    from the same NUMA nodes; else anything. ``agree`` says whether those who provide anything else
    of NUMA nodes can.
    """
    for tried, near in _tries(kept, cpus):
        found = place(tried, near)
        mask = found.affinity
        fits = not isinstance(found.reserve(), NUMARejection)
        if fits and (not isinstance(mask, Mask) or agree(mask, tried)):
            break
    return found, tried


def _tries(kept: KeptRoom, cpus: CPUTopology) -> Iterator[tuple[KeptRoom, Mask | None]]:
    if kept.kept:
        yield kept._replace(restricted=True), None
    if not kept.restricted:
        if home := _home(kept_numa(kept), cpus):
            yield kept, home
        yield kept, None


def _home(kept: ReservedNUMA, cpus: CPUTopology) -> Mask:
    """The NUMA nodes of which something is reserved."""
    own = (cpus.cpus[cpu].node for cpu in kept.cpus if cpu in cpus.cpus)
    zones = (node for node, amounts in kept.zones.items() if any(amounts.values()))
    return mask_of([*own, *zones])


def kept_numa(kept: KeptRoom) -> ReservedNUMA:
    """The CPUs and NUMA nodes of room that is kept."""
    found = (usage.of(NUMA_ALLOCATION) for usage in kept.kept)
    return ReservedNUMA(tuple(allocation for allocation in found if allocation), kept.restricted)
