"""NUMA nodes that can give a pod its devices, as hints for whoever chooses among them. No IO.

Koordinator's ``deviceshare/topology_hint.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from koord_model.device_allocated import PodDevices

from koord_scheduler.extension_points.topology_hints import NUMAHint, mask_of
from koord_scheduler.plugins.device_share.candidates import DeviceRejection, Mask, needed
from koord_scheduler.plugins.device_share.device_allocation import rejection_before
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState
from koord_scheduler.plugins.device_share.reserved_devices import (
    NO_DEVICES_KEPT,
    ReservedDevices,
    allocate_reserved,
)

TOO_FEW_NEAR = "Insufficient NUMA Scoped Devices"
_BEST = 500
"""More than what CPU and memory score: devices decide."""

DeviceNUMAHints = Mapping[str, Sequence[NUMAHint]]


def device_numa_hints(
    needs: PodDeviceNeeds,
    state: NodeDeviceState,
    scorer: DeviceScorer,
    reserved: ReservedDevices = NO_DEVICES_KEPT,
) -> DeviceNUMAHints | DeviceRejection:
    """Hints by type of device: each set of NUMA nodes that can give all of what a pod needs.

    It may use what is ``reserved``, which ``state`` has as used.

    The smallest are preferred, and those score that give the GPUs which the pod would get if it did
    not matter. There are none where no device says near which NUMA node it is.
    """
    nodes = _numa_nodes(state)
    rejection = rejection_before(needs, state)
    if rejection is not None:
        return rejection
    if not nodes:
        return {}
    everywhere = _on(needs, state, scorer, reserved, mask_of(nodes))
    if isinstance(everywhere, DeviceRejection):
        return everywhere
    best = _gpus(everywhere)
    found = {mask: _on(needs, state, scorer, reserved, mask) for mask in _masks(nodes)}
    given = {mask: one for mask, one in found.items() if not isinstance(one, DeviceRejection)}
    fewest = min(mask.bit_count() for mask in given)
    hints = tuple(
        NUMAHint(mask, mask.bit_count() == fewest, score=_BEST if _gpus(one) == best else 0)
        for mask, one in given.items()
    )
    return {need.type: hints for need in needs.needs}


def _numa_nodes(state: NodeDeviceState) -> list[int]:
    places = (device.topology for device in state.has.devices)
    return sorted(
        {place.numa_node for place in places if place is not None and place.numa_node >= 0}
    )


def _masks(nodes: Sequence[int]) -> Iterator[Mask]:
    """All sets, smaller ones first."""
    for size in range(1, len(nodes) + 1):
        yield from map(mask_of, combinations(nodes, size))


def _on(
    needs: PodDeviceNeeds,
    state: NodeDeviceState,
    scorer: DeviceScorer,
    reserved: ReservedDevices,
    mask: Mask,
) -> PodDevices | DeviceRejection:
    for need in needs.needs:
        places = (one.topology for one in state.has.by_type.get(need.type, {}).values())
        near = sum(
            place is not None and place.numa_node >= 0 and bool(mask >> place.numa_node & 1)
            for place in places
        )
        if 0 < near < needed(need, state):
            return DeviceRejection(TOO_FEW_NEAR, resolvable=False)
    return allocate_reserved(needs, state, scorer, reserved, mask)


def _gpus(devices: PodDevices) -> frozenset[int]:
    return frozenset(device.minor for device in devices if device.type == GPU_TYPE)
