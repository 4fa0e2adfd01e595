"""Nodes with devices, pods that need some, and pods that have some, for tests."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from koord_model.device_allocated import PodDevice, VirtualFunction
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds, pod_device_needs
from koord_scheduler.plugins.device_share.device_object import (
    DeviceTopology,
    NodeDevice,
    NodeDevices,
    VirtualFunctionGroup,
)
from koord_scheduler.plugins.device_share.gpu_partitions import GPUPartition
from koord_scheduler.plugins.device_share.node_device_state import (
    GPULabels,
    NodeDeviceState,
    used_devices,
)

K = "koordinator.sh/"
S = "scheduling.koordinator.sh/"
CORE, MEMORY, RATIO = f"{K}gpu-core", f"{K}gpu-memory", f"{K}gpu-memory-ratio"
GPU, SHARED, RDMA = f"{K}gpu", f"{K}gpu.shared", f"{K}rdma"
CARD = ((CORE, 100), (MEMORY, 1600), (RATIO, 100))


def place(numa: int, pcie: int) -> DeviceTopology:
    return DeviceTopology(numa, f"pcie-{pcie}")


def gpu(minor: int, topology: DeviceTopology | None = None, **labels: str) -> NodeDevice:
    return NodeDevice("gpu", minor, CARD, tuple(sorted(labels.items())), topology)


def rdma(minor: int, topology: DeviceTopology | None = None, functions: int = 0) -> NodeDevice:
    each = tuple(VirtualFunction(f"0000:{minor:02x}:00.{one}", one) for one in range(functions))
    groups = (VirtualFunctionGroup((("kind", "fast"),), each),) if functions else ()
    return NodeDevice("rdma", minor, ((RDMA, 100),), (), topology, groups)


def machine(
    partitions: tuple[GPUPartition, ...] | None = None, honors: bool = False
) -> NodeDevices:
    """Eight GPUs and four RDMA cards: two NUMA nodes of two PCIe switches with two GPUs each."""
    gpus = [gpu(minor, place(minor // 4, minor // 2)) for minor in range(8)]
    cards = [rdma(minor, place(minor // 2, minor), functions=2) for minor in range(4)]
    return NodeDevices((*gpus, *cards), partitions, honors)


def has_gpu(minor: int, per_cent: int = 100) -> PodDevice:
    amounts = ((CORE, per_cent), (MEMORY, 16 * per_cent), (RATIO, per_cent))
    return PodDevice("gpu", minor, amounts)


def has_rdma(minor: int, per_cent: int = 100) -> PodDevice:
    return PodDevice("rdma", minor, ((RDMA, per_cent),))


def state(
    has: NodeDevices | None = None, *used: PodDevice, labels: GPULabels | None = None
) -> NodeDeviceState:
    return NodeDeviceState(has or machine(), labels or GPULabels(), used_devices([used]))


def needs(requests: dict[str, int], isolation: str = "", **annotations: Any) -> PodDeviceNeeds:
    given = {S + key.replace("_", "-"): json.dumps(one) for key, one in annotations.items()}
    labels = {f"{K}gpu-isolation-provider": isolation} if isolation else {}
    found = pod_device_needs(requests, given, labels)
    assert found.problem == ""
    return found


_PLACE = st.sampled_from([None, place(-1, 9), *(place(pcie // 2, pcie) for pcie in range(4))])
_PER_CENT = st.sampled_from([1, 25, 50, 75, 100])


@st.composite
def some_states(draw: st.DrawFn) -> NodeDeviceState:
    places = draw(st.lists(_PLACE, max_size=6))
    others = draw(st.lists(_PLACE, max_size=3))
    devices = [gpu(minor, one) for minor, one in enumerate(places)]
    devices += [rdma(minor, one, draw(st.integers(0, 2))) for minor, one in enumerate(others)]
    broken = draw(st.sets(st.sampled_from(range(len(devices) or 1)), max_size=2))
    devices = [
        one._replace(resources=()) if number in broken else one
        for number, one in enumerate(devices)
    ]
    table = draw(st.sampled_from([None, (), *_TABLES]))
    used = draw(st.lists(st.builds(has_gpu, st.integers(0, 5), _PER_CENT), max_size=4))
    more = draw(st.lists(st.builds(has_rdma, st.integers(0, 2), _PER_CENT), max_size=2))
    has = NodeDevices(tuple(devices), table, draw(st.booleans()))
    return NodeDeviceState(has, GPULabels(), used_devices([used, more]))


_TABLES = (
    tuple(GPUPartition(frozenset({one}), 1) for one in range(6)),
    (GPUPartition(frozenset({0, 1}), 1), GPUPartition(frozenset({2, 3}), 2, 5000)),
)
_REQUESTS = st.sampled_from(
    [
        {GPU: 100},
        {GPU: 200},
        {GPU: 300},
        {GPU: 50},
        {MEMORY: 400},
        {SHARED: 2, RATIO: 100},
        {CORE: 25, RATIO: 50},
        {},
    ]
)
_RDMA_REQUESTS = st.sampled_from([{}, {RDMA: 1}, {RDMA: 50}, {RDMA: 200}])
_SCOPES = st.sampled_from(["", "Node", "NUMANode", "PCIe", "Device"])


@st.composite
def some_needs(draw: st.DrawFn) -> PodDeviceNeeds:
    requests = {**draw(_REQUESTS), **draw(_RDMA_REQUESTS)} or {RDMA: 1}
    of_rdma: dict[str, Any] = {
        "allocateStrategy": draw(st.sampled_from(["", "", "ApplyForAll", "RequestsAsCount"])),
        "exclusivePolicy": draw(st.sampled_from(["", "DeviceLevel", "PCIeLevel"])),
    }
    if draw(st.booleans()):
        of_rdma["vfSelector"] = {"matchLabels": {"kind": "fast"}}
    annotations: dict[str, Any] = {}
    if draw(st.booleans()):
        of_gpu = {"requiredTopologyScope": draw(_SCOPES)}
        annotations["device_allocate_hint"] = {"gpu": of_gpu, "rdma": of_rdma}
    if draw(st.booleans()):
        scope = draw(st.sampled_from(["", "SamePCIe"]))
        joint = {"deviceTypes": ["gpu", "rdma"], "requiredScope": scope}
        annotations["device_joint_allocate"] = joint
    if draw(st.booleans()):
        annotations["gpu_partition_spec"] = {"allocatePolicy": "Restricted"}
    return needs(requests, **annotations)
