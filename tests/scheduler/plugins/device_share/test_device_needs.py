"""What requests and annotations of a pod mean in devices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_scheduler.plugins.device_share.device_hints import (
    AllocateStrategy,
    GPUPartitionSpec,
    JointAllocation,
    TopologyLevel,
)
from koord_scheduler.plugins.device_share.device_needs import (
    DeviceNeed,
    PodDeviceNeeds,
    pod_device_needs,
)

K = "koordinator.sh/"
S = "scheduling.koordinator.sh/"
CORE, MEMORY, RATIO, SHARED = (
    f"{K}gpu-core",
    f"{K}gpu-memory",
    f"{K}gpu-memory-ratio",
    f"{K}gpu.shared",
)
NPU = "huawei.com/npu-"


def needs(requests: dict[str, int], **annotations: Any) -> PodDeviceNeeds:
    given = {S + key.replace("_", "-"): json.dumps(one) for key, one in annotations.items()}
    return pod_device_needs({"cpu": 1000, **requests}, given, {})


def only(requests: dict[str, int], **annotations: Any) -> DeviceNeed:
    found = needs(requests, **annotations)
    assert found.problem == ""
    (one,) = found.needs
    return one


@pytest.mark.parametrize(
    ("requests", "count", "each", "is_shared"),
    [
        ({"nvidia.com/gpu": 2}, 2, {CORE: 100, RATIO: 100}, False),
        ({"amd.com/gpu": 1}, 1, {CORE: 100, RATIO: 100}, False),
        ({"dcu.com/gpu": 1}, 1, {CORE: 100, RATIO: 100}, False),
        ({f"{K}gpu": 50}, 1, {CORE: 50, RATIO: 50}, True),
        ({f"{K}gpu": 300}, 3, {CORE: 100, RATIO: 100}, False),
        ({RATIO: 100}, 1, {RATIO: 100}, False),
        ({MEMORY: 800}, 1, {MEMORY: 800}, True),
        ({CORE: 200, RATIO: 200}, 2, {CORE: 100, RATIO: 100}, False),
        ({CORE: 0, RATIO: 40}, 1, {RATIO: 40}, True),
        ({SHARED: 2, CORE: 100, RATIO: 50}, 2, {CORE: 50, RATIO: 25}, True),
        ({SHARED: 2, RATIO: 200}, 2, {RATIO: 100}, False),
        ({SHARED: 4, MEMORY: 801}, 4, {MEMORY: 200}, True),
        ({SHARED: 2, f"{NPU}core": 8, RATIO: 200}, 2, {f"{NPU}core": 4, RATIO: 100}, False),
        ({f"{NPU}core": 8, RATIO: 200}, 2, {f"{NPU}core": 4, RATIO: 100}, False),
        (
            {SHARED: 1, f"{NPU}core": 4, f"{NPU}cpu": 3, f"{NPU}dvpp": 50, MEMORY: 9},
            1,
            {f"{NPU}core": 4, f"{NPU}cpu": 3, f"{NPU}dvpp": 50, MEMORY: 9},
            True,
        ),
    ],
)
def test_gpus(requests: dict[str, int], count: int, each: dict[str, int], is_shared: bool) -> None:
    found = only(requests)
    assert (found.type, found.count, dict(found.each)) == ("gpu", count, each)
    assert found.is_shared == is_shared


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ({f"{K}gpu": 150}, f"invalid resource unit {K}gpu: 150"),
        ({f"{K}rdma": 101}, f"invalid resource unit {K}rdma: 101"),
        ({f"{K}fpga": 250}, f"invalid resource unit {K}fpga: 250"),
        ({CORE: 50}, f"invalid resource device requests: [{CORE}]"),
        ({CORE: 150, RATIO: 100}, f"invalid resource device requests: [{CORE} {RATIO}]"),
        ({RATIO: 150}, f"invalid resource device requests: [{RATIO}]"),
        ({SHARED: 2}, f"invalid resource device requests: [{SHARED}]"),
        ({SHARED: 2, RATIO: 25}, f"invalid resource device requests: [{RATIO} {SHARED}]"),
        ({SHARED: 2, RATIO: 300}, f"invalid resource device requests: [{RATIO} {SHARED}]"),
        (
            {f"{K}gpu": 100, "nvidia.com/gpu": 1},
            f"invalid resource device requests: [{K}gpu nvidia.com/gpu]",
        ),
    ],
)
def test_requests_that_mean_nothing_are_refused_in_koordinators_words(
    requests: dict[str, int], text: str
) -> None:
    assert needs(requests).problem == text


def test_a_part_of_an_npu_is_of_one_card() -> None:
    requests = {SHARED: 2, f"{NPU}core": 4, f"{NPU}cpu": 3, MEMORY: 9}
    assert needs(requests).problem != ""


@pytest.mark.parametrize(
    ("amount", "hint", "count", "each"),
    [
        (50, {}, 1, 50),
        (300, {}, 3, 100),
        (50, {"allocateStrategy": "ApplyForAll"}, 0, 50),
        (300, {"allocateStrategy": "ApplyForAll"}, 3, 100),
        (4, {"allocateStrategy": "RequestsAsCount"}, 4, 1),
        (4, {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}, 4, 100),
        (4, {"exclusivePolicy": "DeviceLevel"}, 1, 4),
    ],
)
def test_how_many_rdma_devices(amount: int, hint: dict[str, str], count: int, each: int) -> None:
    found = only({f"{K}rdma": amount}, device_allocate_hint={"rdma": hint})
    assert (found.type, found.count, dict(found.each)) == ("rdma", count, {f"{K}rdma": each})


def test_hints_are_by_type() -> None:
    hints = {
        "gpu": {"requiredTopologyScope": "NUMANode", "selector": {"matchLabels": {"a": "b"}}},
        "rdma": {"vfSelector": {}, "exclusivePolicy": "PCIeLevel"},
        "fpga": None,
    }
    found = needs({f"{K}gpu": 100, f"{K}rdma": 1}, device_allocate_hint=hints)
    gpu, rdma = found.needs
    assert gpu.hint.scope is TopologyLevel.NUMA_NODE
    assert gpu.hint.selector is not None
    assert gpu.hint.selector.matches({"a": "b"})
    assert not gpu.hint.selector.matches({})
    assert rdma.hint.functions is not None
    assert rdma.hint.keeps_pcie
    assert rdma.hint.strategy is AllocateStrategy.UNSET


def test_joint_allocation_is_of_what_is_requested_and_counted() -> None:
    joint = {"deviceTypes": ["gpu", "rdma", "fpga"], "requiredScope": "SamePCIe"}
    requests = {f"{K}gpu": 100, f"{K}rdma": 1}
    assert needs(requests, device_joint_allocate=joint).joint == JointAllocation(
        ("gpu", "rdma"), True
    )
    hint = {"rdma": {"allocateStrategy": "ApplyForAll"}}
    found = needs(requests, device_joint_allocate=joint, device_allocate_hint=hint)
    assert found.joint == JointAllocation(("gpu",), True)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, GPUPartitionSpec()),
        ({"allocatePolicy": "BestEffort"}, GPUPartitionSpec()),
        (
            {"allocatePolicy": "Restricted", "ringBusBandwidth": "2"},
            GPUPartitionSpec(True, 2000),
        ),
    ],
)
def test_partitions(spec: dict[str, str], expected: GPUPartitionSpec) -> None:
    assert needs({f"{K}gpu": 100}, gpu_partition_spec=spec).partitions == expected


@pytest.mark.parametrize(
    ("annotations", "named"),
    [
        (
            {"device_allocate_hint": {"gpu": {"requiredTopologyScope": "Rack"}}},
            "DeviceAllocateHint",
        ),
        ({"device_allocate_hint": {"gpu": {"selector": {"a": 1}}}}, "gpu.selector"),
        ({"device_joint_allocate": {"requiredScope": "Same"}}, "DeviceJointAllocate"),
        ({"gpu_partition_spec": {"allocatePolicy": "Any"}}, "GPUPartitionSpec"),
        ({"gpu_partition_spec": {"ringBusBandwidth": "fast"}}, "GPUPartitionSpec"),
        ({"gpu_partition_spec": 7}, "GPUPartitionSpec"),
    ],
)
def test_annotations_that_cannot_be_used_are_named(annotations: dict[str, Any], named: str) -> None:
    assert named in needs({f"{K}gpu": 100}, **annotations).problem


def test_pods_without_devices_need_nothing_whatever_their_annotations() -> None:
    assert not needs({}, device_allocate_hint=7)
    assert not needs({f"{K}gpu": 0})
