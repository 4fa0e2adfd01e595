"""The NUMA node that is nearest to a pod's request, and its shortage. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_model.keys import CPU
from koord_model.quantity import quantity_text

from koord_scheduler.plugins.node_numa_resource.allocator import NodeAllocator


def nearest_zone(allocator: NodeAllocator, *, by_zone: bool) -> str:
    """Describe the shortage for people; "" where there is none, so that it is something else.

    Where CPUs are bound they are counted one by one. Unless a policy looks at NUMA nodes
    (``by_zone``), it is the CPUs of the whole node that count.
    """
    request = allocator.request
    if not by_zone:
        free = len(allocator.free_cpus)
        is_short = request.binds and free < request.cpus
        return f"{free} of {request.cpus} CPUs are free" if is_short else ""
    found = [_lacks(allocator, zone) for zone in allocator.machine.zones]
    if not found or not all(lacks for _, lacks in found):
        return ""
    _, lacks = min(found, key=lambda one: one[0])
    return f"NUMA node {lacks[0]} lacks {', '.join(lacks[1:])}"


def _lacks(allocator: NodeAllocator, zone: int) -> tuple[float, tuple[str, ...]]:
    """Return a NUMA node's relative shortage; and its number with the resources, if any."""
    total, texts = 0.0, list[str]()
    for name, lacking in _lacking(allocator, zone):
        has = allocator.machine.zones[zone].get(name, 0)
        total += lacking / has if has else float("inf")
        texts.append(f"{quantity_text(name, lacking)} {name}")
    return total, (str(zone), *texts) if texts else ()


def _lacking(allocator: NodeAllocator, zone: int) -> Iterator[tuple[str, int]]:
    request, free = allocator.request, allocator.free[zone]
    for name, amount in request.amounts.items():
        if name not in allocator.machine.zones[zone]:
            continue
        left = free.get(name, 0)
        if name == CPU and request.binds:
            own = len(allocator.free_cpus & allocator.machine.cpus.in_node(zone))
            left = min(left, 1000 * own)
        if amount > left:
            yield name, amount - left
