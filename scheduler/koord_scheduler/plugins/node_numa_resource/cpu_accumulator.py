"""Choice of a pod's own CPUs. No IO.

As Koordinator's ``takePreferredCPUs`` (``plugins/nodenumaresource/cpu_accumulator.go``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology
from koord_scheduler.plugins.node_numa_resource.free_cpus import CPUPreferences, FreeCPUs, TakenCPU

CPUSet = frozenset[int]

_STRICT_FIRST = (True, False)
"""Exclusive policies are preferences: they are dropped where they cannot be had."""


class CPUPool(NamedTuple):
    """CPUs of a node that a pod may get; a CPU may be in up to ``shares`` pods.

    ``preferred`` are taken before all others: those of a reservation.
    """

    topology: CPUTopology
    free: CPUSet
    taken: Mapping[int, TakenCPU]
    preferred: CPUSet = frozenset()
    shares: int = 1


def take_preferred_cpus(pool: CPUPool, count: int, wants: CPUPreferences) -> CPUSet | None:
    """``count`` CPUs for a pod, from those preferred as long as there are any.

    ``None``: there are not enough.
    """
    preferred = pool.free & pool.preferred
    first = take_cpus(pool._replace(free=preferred), min(count, len(preferred)), wants)
    if first is None:
        return None
    rest = take_cpus(pool._replace(free=pool.free - preferred), count - len(first), wants)
    return None if rest is None else first | rest


def take_cpus(pool: CPUPool, count: int, wants: CPUPreferences) -> CPUSet | None:
    """``count`` of the free CPUs; ``None``: there are not enough.

    Whole cores, where they are wanted: of one NUMA node, or else one socket, or else of the
    sockets that have most of them. Else, or for what is left: one CPU of each core, of one NUMA
    node, or else one socket, or else near those that the pod has by then.
    """
    if count <= 0:
        return frozenset()
    cpus = FreeCPUs(pool.topology, pool.free, pool.taken, wants, pool.shares)
    if count > len(cpus.free):
        return None
    if wants.full_cores or pool.topology.cpus_per_core == 1:
        whole = _of_one_group(cpus, count)
        if whole is not None:
            return whole
        _take_richest_sockets(cpus, count)
    if not wants.full_cores:
        _take_spread(cpus, count)
    for keep_apart in _STRICT_FIRST:
        ordered = cpus.spread(cpus.anywhere(keep_apart=keep_apart))
        cpus.take(ordered[: count - len(cpus.taken)])
    return frozenset(cpus.taken)


def _of_one_group(cpus: FreeCPUs, count: int) -> CPUSet | None:
    """Whole cores of one NUMA node, or of one socket."""
    if count <= cpus.topology.cpus_per_node:
        for keep_apart in _STRICT_FIRST:
            for group in cpus.full_cores_by_node(keep_apart=keep_apart):
                if len(group) >= count:
                    return _first_cores(cpus, group, count)
    if count <= cpus.topology.cpus_per_socket:
        for group in cpus.full_cores_by_socket():
            if len(group) >= count:
                return _first_cores(cpus, group, count)
    return None


def _first_cores(cpus: FreeCPUs, group: Sequence[int], count: int) -> CPUSet:
    """Whole cores; the last one in part if they do not come to ``count``."""
    whole = cpus.topology.whole_cores(group, count)
    rest = [cpu for cpu in group if cpu not in whole] if len(whole) < count else []
    return frozenset([*whole, *rest[: count - len(whole)]])


def _take_richest_sockets(cpus: FreeCPUs, count: int) -> None:
    """Whole sockets, most cores first, then cores of the socket that has fewest."""
    left = []
    for group in sorted(cpus.full_cores_by_socket(), key=len, reverse=True):
        if len(group) <= count - len(cpus.taken):
            cpus.take(group)
        else:
            left.append(group)
    for group in sorted(left, key=len):
        cpus.take(cpus.topology.whole_cores(group, count - len(cpus.taken)))


def _take_spread(cpus: FreeCPUs, count: int) -> None:
    """One CPU of each core, of one NUMA node or one socket, for all that is still needed."""
    needed = count - len(cpus.taken)
    if needed <= cpus.topology.cpus_per_node:
        for keep_apart in _STRICT_FIRST:
            for group in cpus.by_node(keep_apart=keep_apart):
                if len(group) >= needed:
                    cpus.take(cpus.spread(group)[:needed])
                    return
    if needed <= cpus.topology.cpus_per_socket:
        for keep_apart in _STRICT_FIRST:
            for group in cpus.by_socket(keep_apart=keep_apart):
                if len(group) >= needed:
                    cpus.take(cpus.spread(group)[:needed])
                    return
