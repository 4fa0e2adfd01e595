"""Requests and usage of one node's pods, summed up as the formulas need it. No IO.

The rules are Koordinator's (batchresource's ``calculateOnNode`` and ``calculateOnNUMALevel``).
On purpose different: a pod without a metric counts with its request in ``max_used_request``, on
the node as in its zones; mid pods' requests are of mid resources; and zones bear shares by their
size, where Koordinator divides equally.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from koord_model.priority import PriorityClass

from koord_manager.noderesource.core.node_state import (
    NOTHING,
    CpuMemory,
    MeasuredUsage,
    MetricSummary,
    NumaZone,
    bounded,
    total,
)
from koord_manager.noderesource.core.pods import LOW, PodSummary


class PodSums(NamedTuple):
    """Of high-priority pods: neither batch nor free."""

    used: CpuMemory = NOTHING
    request: CpuMemory = NOTHING
    max_used_request: CpuMemory = NOTHING


class PodTotals(NamedTuple):
    """One node's; ``system`` is all that comes before batch pods beside pods, by metric.

    ``mid_system`` is that which comes before mid pods. ``bound`` is ``high`` by the NUMA nodes
    that pods are bound to, () for those that are not. ``native_request`` is of CPU and memory
    by these names, of all pods. ``batch_used`` is measured of batch and free pods.
    """

    high: PodSums
    bound: Mapping[tuple[int, ...], PodSums]
    prod_request: CpuMemory
    system: CpuMemory
    mid_system: CpuMemory
    native_request: CpuMemory = NOTHING
    batch_used: CpuMemory = NOTHING


_BEFORE_MID = (PriorityClass.PROD, PriorityClass.NONE)
_BEFORE_BATCH = (*_BEFORE_MID, PriorityClass.MID)


def account(metric: MetricSummary, pods: Mapping[str, PodSummary]) -> PodTotals:
    """The account of a node with these pods, by "namespace/name"."""
    bound: dict[tuple[int, ...], list[int]] = {(): [0] * 6}
    prod_cpu = prod_memory = native_cpu = native_memory = batch_cpu = batch_memory = 0
    gone = dict(metric.pods)
    for name, pod in pods.items():
        if not pod.active:
            continue
        seen = gone.pop(name, None)
        if pod.priority is not PriorityClass.MID:
            native_cpu += pod.cpu
            native_memory += pod.memory
        if not pod.high:
            if seen is not None:
                batch_cpu += seen.usage.cpu or 0
                batch_memory += seen.usage.memory or 0
            continue
        if pod.priority in _BEFORE_MID:
            prod_cpu += pod.cpu
            prod_memory += pod.memory
        cpu, memory = seen.usage if seen else (None, None)
        cpu = pod.cpu if cpu is None else cpu
        memory = pod.memory if memory is None else memory
        sums = bound.get(pod.numa_nodes)
        if sums is None:
            sums = bound[pod.numa_nodes] = [0] * 6
        sums[0] += pod.cpu if pod.lse else cpu  # an LSE pod's idle CPUs are not shared
        sums[1] += memory
        sums[2] += pod.cpu
        sums[3] += pod.memory
        sums[4] += max(pod.cpu, cpu)
        sums[5] += max(pod.memory, memory)
    # They are measured still and not among the pods any more: they are counted as measured.
    left = total(pod.usage for pod in gone.values() if pod.priority not in LOW)
    for place in (0, 4):
        bound[()][place] += left.cpu
        bound[()][place + 1] += left.memory
    by_nodes = {nodes: _sums(sums) for nodes, sums in bound.items()}
    return PodTotals(
        high=_all(by_nodes.values()),
        bound=by_nodes,
        prod_request=CpuMemory(bounded(prod_cpu), bounded(prod_memory)),
        system=_system(metric, _BEFORE_BATCH),
        mid_system=_system(metric, _BEFORE_MID),
        native_request=CpuMemory(bounded(native_cpu), bounded(native_memory)),
        batch_used=CpuMemory(bounded(batch_cpu), bounded(batch_memory)),
    )


def _sums(sums: Sequence[int]) -> PodSums:
    cpu, memory, cpu_asked, memory_asked, cpu_most, memory_most = map(bounded, sums)
    return PodSums(
        CpuMemory(cpu, memory), CpuMemory(cpu_asked, memory_asked), CpuMemory(cpu_most, memory_most)
    )


def _all(sums: Iterable[PodSums]) -> PodSums:
    return PodSums(*(total(pairs) for pairs in zip(*sums, strict=True)))


def _system(metric: MetricSummary, before: Sequence[PriorityClass]) -> CpuMemory:
    return total((metric.system, _applications(metric, before)))


def _applications(metric: MetricSummary, before: Sequence[PriorityClass]) -> CpuMemory:
    return total(
        application.usage for application in metric.applications if application.priority in before
    )


class ZoneTotals(NamedTuple):
    """One zone's part of the account, and of what is reserved on the node."""

    high: PodSums
    system: CpuMemory
    reserved: CpuMemory


def zone_totals(
    metric: MetricSummary, node: PodTotals, reserved: CpuMemory, zones: Sequence[NumaZone]
) -> list[ZoneTotals]:
    """Each zone's: pods where they are bound to, the rest by the zones' sizes.

    The system's usage is what was measured in the zone, where it was.
    """
    every = _shares(zones, ())
    outside = _applications(metric, _BEFORE_BATCH)
    high = [[NOTHING] * 3 for _ in zones]
    for nodes, sums in node.bound.items():
        shares = _shares(zones, nodes)
        for sum_of_zone, share in zip(high, shares, strict=True):
            for place, amount in enumerate(sums):
                sum_of_zone[place] = total((sum_of_zone[place], _part(amount, share)))
    return [
        ZoneTotals(
            PodSums(*high[place]),
            total((_system_of(zone, metric, every[place]), _part(outside, every[place]))),
            _part(reserved, every[place]),
        )
        for place, zone in enumerate(zones)
    ]


class _Share(NamedTuple):
    cpu: tuple[int, int]
    memory: tuple[int, int]


def _shares(zones: Sequence[NumaZone], nodes: tuple[int, ...]) -> list[_Share]:
    """Of each zone its size and that of all together; of some ``nodes``, if they have any."""
    cpu, memory = (
        _sizes([(zone.size[place], zone.numa in nodes) for zone in zones]) for place in (0, 1)
    )
    return [_Share(*both) for both in zip(cpu, memory, strict=True)]


def _sizes(zones: Sequence[tuple[int, bool]]) -> list[tuple[int, int]]:
    bearing = [size if here else 0 for size, here in zones]
    if not any(bearing):
        bearing = [size for size, _ in zones]
    whole = sum(bearing)
    return [(size, whole) for size in bearing]


def _part(amount: CpuMemory, share: _Share) -> CpuMemory:
    """Rounded up: what is kept back is not to be less in parts than it is as a whole."""
    return CpuMemory(_portion(amount.cpu, *share.cpu), _portion(amount.memory, *share.memory))


def _portion(amount: int, size: int, whole: int) -> int:
    return -(-amount * size // whole) if whole else 0


def _system_of(zone: NumaZone, metric: MetricSummary, share: _Share) -> CpuMemory:
    usage = metric.numa.get(zone.numa, MeasuredUsage())
    divided = _part(metric.system.known(), share)
    return CpuMemory(
        divided.cpu if usage.cpu is None else usage.cpu,
        divided.memory if usage.memory is None else usage.memory,
    )
