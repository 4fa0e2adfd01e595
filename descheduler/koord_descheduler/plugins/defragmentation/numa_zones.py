"""NUMA nodes: free amounts of each, and the parts that pods have. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE
from koord_scheduler.plugins.node_numa_resource.columns import NUMAColumns
from koord_scheduler.plugins.node_numa_resource.pod_parts import NUMA_ALLOCATION
from koord_scheduler.plugins.node_numa_resource.policies import NUMATopologyPolicy
from koord_scheduler.state.arrays import Amounts
from koord_scheduler.state.cluster_state import ClusterState

from koord_descheduler.plugins.defragmentation.packed_cluster import PackedCluster


@dataclass(frozen=True)
class NodeZones:
    """The NUMA nodes of a node, in one order.

    ``free`` and, by the pods' numbers, ``held`` are amounts by NUMA node and resource; what a NUMA
    node does not count is infinite. ``cards`` are the columns of the GPUs of each; a GPU of which
    nothing is known is in all.
    """

    free: Amounts
    cards: Sequence[Sequence[int]]
    held: Mapping[int, Amounts]


def node_zones(
    state: ClusterState, packed: PackedCluster, *, is_aligned: bool
) -> list[NodeZones | None]:
    """The NUMA nodes of each node; ``None`` where a pod need not have all from one.

    It has to everywhere if it ``is_aligned`` itself, and on nodes whose policy says so.
    """
    columns, devices = state.find(NUMAColumns), state.find(DeviceColumns)
    found: list[NodeZones | None] = [None] * len(packed.names)
    if columns is None:
        return found
    for node, row in enumerate(packed.rows.tolist()):
        machine = columns.machine(row)
        is_single = machine.topology_policy is NUMATopologyPolicy.SINGLE_NUMA_NODE
        if not machine.zones or not (is_aligned or is_single):
            continue
        places = {zone: place for place, zone in enumerate(machine.zones)}
        free = columns.allocation(row).free_in_zones(machine)
        amounts = [
            [float(free[zone].get(name, np.inf)) for name in packed.resources] for zone in places
        ]
        held = {
            number: _held(packed, number, places)
            for number in packed.packing.on[node]
            if number >= 0
        }
        found[node] = NodeZones(np.array(amounts), _cards(devices, row, list(places)), held)
    return found


def _held(packed: PackedCluster, number: int, places: Mapping[int, int]) -> Amounts:
    found = np.zeros((len(places), len(packed.resources)))
    for zone, amounts in packed.pods[number].placed.usage.of(NUMA_ALLOCATION).zones:
        if zone in places:
            has = dict(amounts)
            found[places[zone]] = [has.get(name, 0) for name in packed.resources]
    return found


def _cards(devices: DeviceColumns | None, row: int, zones: Sequence[int]) -> list[list[int]]:
    state = devices.state(row) if devices is not None else None
    gpus = list(state.devices.get(GPU_TYPE, {}).values()) if state is not None else []
    of = [gpu.device.topology.numa_node if gpu.device.topology else -1 for gpu in gpus]
    return [[card for card, at in enumerate(of) if at in (zone, -1)] for zone in zones]
