"""Choice of a node's GPUs for a pod: a partition, near ones, or the best ones. No IO.

Koordinator's ``deviceshare/allocator_gpu.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from koord_model.device_allocated import PodDevice, PodDevices

from koord_scheduler.plugins.device_share.candidates import (
    NONE_PREFERRED,
    Candidates,
    DeviceRejection,
    Preferred,
    nearest_miss,
    take_devices,
)
from koord_scheduler.plugins.device_share.device_hints import GPUPartitionSpec
from koord_scheduler.plugins.device_share.device_needs import DeviceNeed
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE, NodeDevices
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.gpu_partitions import choose_partition, of_size
from koord_scheduler.plugins.device_share.gpu_topology import GPUScope, ScopeSearch, gpu_scopes
from koord_scheduler.plugins.device_share.node_device_state import FreeDevice, NodeDeviceState

NO_PARTITION_TABLE = "node(s) missing GPU Partition Table"
NO_SUCH_PARTITION = "node(s) Unsupported number of GPU requests"
NO_FREE_PARTITION = "Insufficient Partitioned GPU Devices"
NO_TOPOLOGY = "node(s) missing GPU Device Topology Tree"
SEVERAL_SHARED = "node(s) Unsupported Multi-Shared GPU"
NOT_NEAR_ENOUGH = "Insufficient Topology Scoped GPU Devices"
TOO_FEW = "Insufficient GPU Devices"


def take_gpus(
    need: DeviceNeed,
    spec: GPUPartitionSpec | None,
    state: NodeDeviceState,
    found: Candidates,
    scorer: DeviceScorer,
    preferred: Preferred = NONE_PREFERRED,
) -> PodDevices | DeviceRejection:
    """GPUs out of ``found``, first those that are ``preferred``.

    First a partition is looked for. If there is none, and neither pod nor node insist, GPUs that
    are near to each other; and if their places are not known, the best ones.
    """
    first = frozenset(minor for kind, minor in preferred if kind == GPU_TYPE)
    if not need.is_shared:
        partition = _partition(need, spec, state, found, first)
        insists = spec is not None or state.partitions[1]
        if insists or not isinstance(partition, DeviceRejection):
            return partition
    near = _near(need, state, found, scorer, first)
    if isinstance(near, DeviceRejection) and not need.hint.scope and not near.resolvable:
        return take_devices(need, need.count, found, scorer, preferred=preferred)
    return near


def used_gpus(state: NodeDeviceState) -> frozenset[int]:
    """The GPUs of which pods have anything, healthy or not."""
    return frozenset(one.minor for one in state.used if one.type == GPU_TYPE and one.resources)


def _partition(
    need: DeviceNeed,
    spec: GPUPartitionSpec | None,
    state: NodeDeviceState,
    found: Candidates,
    preferred: frozenset[int],
) -> PodDevices | DeviceRejection:
    partitions, _ = state.partitions
    if partitions is None:
        return DeviceRejection(NO_PARTITION_TABLE, resolvable=False)
    if not of_size(partitions, need.count):
        return DeviceRejection(NO_SUCH_PARTITION, resolvable=False)
    spec = spec or GPUPartitionSpec()
    chosen = choose_partition(
        partitions,
        need.count,
        frozenset(minor for minor, one in found.items() if one.has_room(need.amounts)),
        used_gpus(state),
        is_restricted=spec.is_restricted,
        bandwidth=spec.bandwidth,
        preferred=preferred,
    )
    if chosen is None:
        return DeviceRejection(NO_FREE_PARTITION, note=nearest_miss(need, need.count, found))
    return tuple(PodDevice(GPU_TYPE, minor, need.each) for minor in sorted(chosen.minors))


def _near(
    need: DeviceNeed,
    state: NodeDeviceState,
    found: Candidates,
    scorer: DeviceScorer,
    preferred: frozenset[int],
) -> PodDevices | DeviceRejection:
    scopes = _scopes(state.has)
    if scopes is None:
        return DeviceRejection(NO_TOPOLOGY, resolvable=False)
    if need.is_shared and need.count > 1:
        return DeviceRejection(SEVERAL_SHARED, resolvable=False)
    search = ScopeSearch(
        need.count,
        need.hint.scope,
        lambda minor: minor in found and found[minor].has_room(need.amounts),
        used_gpus(state),
        (lambda minor: scorer.of_device(need.amounts, found[minor])) if need.is_shared else None,
        preferred,
    )
    best = search.best(scopes)
    if best is None:
        text = NOT_NEAR_ENOUGH if need.hint.scope else TOO_FEW
        return DeviceRejection(text, note=nearest_miss(need, need.count, found))
    return tuple(PodDevice(GPU_TYPE, minor, need.each) for minor in best)


@lru_cache(maxsize=256)
def _scopes(has: NodeDevices) -> GPUScope | None:
    """The same for all machines of a kind."""
    return gpu_scopes(has.by_type.get(GPU_TYPE, {}))


def with_memory(devices: PodDevices, found: Mapping[int, FreeDevice]) -> PodDevices:
    """GPUs with the part of their memory in bytes and in per cent, whichever was requested."""
    return tuple(_with_memory(device, found[device.minor]) for device in devices)


def _with_memory(pod_device: PodDevice, device: FreeDevice) -> PodDevice:
    amounts = device.with_memory(dict(pod_device.resources))
    return pod_device._replace(resources=tuple(sorted(amounts.items())))
