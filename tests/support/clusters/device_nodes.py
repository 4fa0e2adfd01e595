"""Random nodes with GPUs, RDMA cards and FPGAs, pods that have some, and a pod that needs some."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.support.clusters.selectors import chance

Object = dict[str, Any]
K, S = "koordinator.sh/", "scheduling.koordinator.sh/"
CORE, MEMORY, RATIO = f"{K}gpu-core", f"{K}gpu-memory", f"{K}gpu-memory-ratio"
GPU, SHARED, NVIDIA = f"{K}gpu", f"{K}gpu.shared", "nvidia.com/gpu"
RDMA, FPGA = f"{K}rdma", f"{K}fpga"
POLICY = "node.koordinator.sh/gpu-partition-policy"
GIB = 1 << 30
KINDS = [["gpu"]] * 6 + [["gpu", "rdma"]] * 5 + [["rdma"], ["fpga"], ["rdma", "fpga"]]
CARD = 16 * GIB
"""Bytes of a GPU: parts of it are exact per cent as well, or are rounded down."""


def random_device_node(rng: Random) -> Object:
    """A Device, its Node, pods there, and a pod; how devices are scored, and the NUMA nodes."""
    numa = rng.choice([1, 2, 2])
    gpus = _gpus(rng, numa)
    others = [*_cards(rng, "rdma", RDMA, numa), *_cards(rng, "fpga", FPGA, numa)]
    devices = [*gpus, *others]
    for one in devices:
        if chance(rng, 0.05):
            one["health"] = False
    weights = {name: rng.choice([1, 1, 2]) for name in (MEMORY, RATIO, RDMA, FPGA)}
    return {
        "Node": {"metadata": {"name": "n", "labels": _node_labels(rng)}},
        "Device": _device(rng, devices, len(gpus)),
        "Placed": [_placed(rng, f"p{one}", devices) for one in range(rng.choice([0, 1, 2, 4]))],
        "Pod": _pod(rng),
        "Most": chance(rng, 0.5),
        "Weights": weights,
        "NUMANodes": rng.choice([[0], [1], [0, 1]]) if chance(rng, 0.25) else None,
    }


def _gpus(rng: Random, numa: int) -> list[Object]:
    count = rng.choice([0, 1, 2, 4, 4, 8, 8, 8])
    amounts = {CORE: "100", RATIO: "100", MEMORY: str(CARD)}
    return _devices(rng, "gpu", count, amounts, numa, rng.choice([1, 2]))


def _cards(rng: Random, kind: str, resource: str, numa: int) -> list[Object]:
    count = rng.choice([0, 1, 2, 4, 4] if kind == "rdma" else [0, 1, 2, 2])
    cards = _devices(rng, kind, count, {resource: "100"}, numa, 1)
    if kind == "rdma" and chance(rng, 0.6):
        for one in cards:
            one["vfGroups"] = [
                {"labels": {"speed": speed}, "vfs": _functions(one["minor"], group)}
                for group, speed in enumerate(("fast", "slow")[: rng.choice([1, 2])])
            ]
    return cards


def _functions(minor: int, group: int) -> list[Object]:
    return [{"minor": one, "busID": f"0000:{minor:02x}:{group}0.{one}"} for one in range(2)]


def _devices(
    rng: Random, kind: str, count: int, amounts: Object, numa: int, on_switch: int
) -> list[Object]:
    has_places = not chance(rng, 0.15)
    found = []
    for minor in range(count):
        one: Object = {"type": kind, "minor": minor, "health": True, "resources": dict(amounts)}
        one["labels"] = {"kind": rng.choice(["a", "a", "b"])}
        if has_places:
            at = minor * numa // count
            switch = minor // on_switch if kind == "gpu" else minor
            one["topology"] = {"socketID": 0, "nodeID": at, "pcieID": f"pcie-{switch}"}
            if chance(rng, 0.02):
                one["topology"]["nodeID"] = -1
        found.append(one)
    return found


def _node_labels(rng: Random) -> Object:
    labels: Object = {}
    if chance(rng, 0.2):
        model = rng.choice(["H100", "H800", "H20", "A100"])
        labels |= {"node.koordinator.sh/gpu-vendor": "nvidia"}
        labels |= {"node.koordinator.sh/gpu-model": model}
    if chance(rng, 0.1):
        labels[POLICY] = rng.choice(["Honor", "Prefer"])
    return labels


def _device(rng: Random, devices: list[Object], gpus: int) -> Object:
    metadata: Object = {"name": "n", "labels": {}, "annotations": {}}
    if chance(rng, 0.3):
        table = {str(size): _partitions(rng, size, gpus) for size in (1, 2, 4, 8) if size <= gpus}
        metadata["annotations"][f"{S}gpu-partitions"] = json.dumps(table)
    if chance(rng, 0.2):
        metadata["labels"][POLICY] = rng.choice(["Honor", "Prefer"])
    return {"metadata": metadata, "spec": {"devices": devices}}


def _partitions(rng: Random, size: int, gpus: int) -> list[Object]:
    several = chance(rng, 0.2)
    found: list[Object] = []
    for first in range(0, gpus - size + 1, size):
        one: Object = {"minors": list(range(first, first + size))}
        one |= {"gpuLinkType": "NVLink", "allocationScore": rng.choice([1, 2]) if several else 1}
        if chance(rng, 0.5):
            one["ringBusBandwidth"] = rng.choice(["100Gi", "400Gi"])
        found.append(one)
    return found


def _placed(rng: Random, name: str, devices: list[Object]) -> Object:
    """A pod that has something of one device or several, or of one that is not there."""
    kind = rng.choice([one["type"] for one in devices] or [""])
    of_kind = [one for one in devices if one["type"] == kind]
    given = rng.sample(of_kind, min(len(of_kind), rng.choice([1, 1, 2])))
    has = [_has(rng, kind, one) for one in given]
    if has and chance(rng, 0.03):
        has.append(_has(rng, kind, {"minor": 9}))
    text = json.dumps({kind: has} if has else {})
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"metadata": {**metadata, "annotations": {f"{S}device-allocated": text}}}


def _has(rng: Random, kind: str, device: Object) -> Object:
    part = rng.choice([25, 50, 50, 75, 100])
    if kind == "gpu":
        amounts = {CORE: str(part), RATIO: str(part), MEMORY: str(CARD * part // 100)}
        if chance(rng, 0.1):
            del amounts[CORE]
        return {"minor": device["minor"], "resources": amounts}
    resource = RDMA if kind == "rdma" else FPGA
    found: Object = {"minor": device["minor"], "resources": {resource: str(rng.choice([1, part]))}}
    functions = [vf for group in device.get("vfGroups", ()) for vf in group["vfs"]]
    if functions and chance(rng, 0.7):
        found["extension"] = {"vfs": [rng.choice(functions)]}
    return found


def _pod(rng: Random) -> Object:
    requests: Object = {}
    kinds = rng.choice(
        [["gpu"]] * 6 + [["gpu", "rdma"]] * 5 + [["rdma"], ["fpga"], ["rdma", "fpga"]]
    )
    for kind in kinds:
        if kind == "gpu":
            requests |= _gpu_requests(rng)
        else:
            amount = rng.choice([1, 1, 2, 25, 50, 100, 100, 200, 200, 300, 1, 1, 150])
            requests[RDMA if kind == "rdma" else FPGA] = str(amount)
    annotations: Object = {}
    if chance(rng, 0.5):
        hints = {kind: _hint(rng, kind) for kind in kinds if chance(rng, 0.7)}
        annotations[f"{S}device-allocate-hint"] = json.dumps(hints)
    if len(kinds) > 1 and chance(rng, 0.7):
        joint = {"deviceTypes": kinds if chance(rng, 0.8) else kinds[::-1]}
        scope = {"requiredScope": "SamePCIe"} if chance(rng, 0.5) else {}
        annotations[f"{S}device-joint-allocate"] = json.dumps(joint | scope)
    if chance(rng, 0.15):
        spec: Object = {"allocatePolicy": rng.choice(["Restricted", "BestEffort"])}
        if chance(rng, 0.4):
            spec["ringBusBandwidth"] = rng.choice(["200Gi", "500Gi"])
        annotations[f"{S}gpu-partition-spec"] = json.dumps(spec)
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    metadata = {"name": "p", "namespace": "default", "uid": "uid-p", "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def _gpu_requests(rng: Random) -> Object:
    part, cards = rng.choice([25, 50, 50, 75, 100]), rng.choice([1, 1, 2, 2, 3, 4, 8])
    size = str(CARD * part // 100)
    return rng.choice(
        [
            {GPU: str(100 * cards)},
            {GPU: str(part)},
            {NVIDIA: str(cards)},
            {CORE: str(part), RATIO: str(part)},
            {CORE: str(100 * cards), RATIO: str(100 * cards)},
            {CORE: str(part), MEMORY: size},
            {RATIO: str(part)},
            {MEMORY: size},
            {SHARED: str(cards), MEMORY: str(int(size) * cards)},
            {SHARED: str(cards), CORE: str(part * cards), RATIO: str(part * cards)},
            {SHARED: str(cards), RATIO: str(part)},
            {NVIDIA: str(cards)},
            {GPU: "50"},
            {GPU: "100"},
            {GPU: "200"},
            {CORE: str(part)} if chance(rng, 0.5) else {GPU: "150"},
        ]
    )


def _hint(rng: Random, kind: str) -> Object:
    hint: Object = {}
    if chance(rng, 0.4):
        hint["selector"] = {"matchLabels": {"kind": rng.choice(["a", "b"])}}
    if kind == "rdma" and chance(rng, 0.5):
        matches = {"matchLabels": {"speed": "fast"}} if chance(rng, 0.5) else {}
        hint["vfSelector"] = matches
    if kind != "gpu" and chance(rng, 0.6):
        hint["allocateStrategy"] = rng.choice(["ApplyForAll", "RequestsAsCount"])
    if kind == "gpu" and chance(rng, 0.5):
        hint["requiredTopologyScope"] = rng.choice(["Node", "NUMANode", "PCIe", "PCIe", "Device"])
    if chance(rng, 0.15):
        hint["exclusivePolicy"] = rng.choice(["DeviceLevel", "PCIeLevel"])
    return hint


def random_reserved_devices(rng: Random) -> Object:
    """The same with reservations that have devices, of which owners have some, and without hints.

    ``Reserved`` is for the pod. What is reserved, and what pods have, fits together.
    """
    given = random_device_node(rng)
    devices = [one for one in given["Device"]["spec"]["devices"] if one["health"]]
    free = {(one["type"], one["minor"]): 100 for one in devices}
    busy = rng.sample(devices, min(len(devices), rng.choice([0, 1, 2])))
    placed = [_part(rng, one, free) for one in busy]
    given["Placed"] = [_pod_with(f"p{at}", one) for at, one in enumerate(placed) if one]
    reserved = [_reserved(rng, devices, free) for _ in range(rng.choice([1, 1, 2]))]
    given["Reserved"] = [one for one in reserved if one["Devices"]]
    given["NUMANodes"] = None
    given["Pod"]["metadata"]["annotations"] = {}
    return given


def _reserved(rng: Random, devices: list[Object], free: dict[tuple[str, int], int]) -> Object:
    kinds = sorted({one["type"] for one in devices})
    kind = rng.choice(["gpu", *kinds])
    of_kind = [one for one in devices if one["type"] == kind]
    chosen = rng.sample(of_kind, min(len(of_kind), rng.choice([1, 1, 2, 3])))
    parts = [part for one in chosen if (part := _part(rng, one, free))]
    has: Object = {}
    for one in parts:
        for name, listed in one.items():
            has.setdefault(name, []).extend(listed)
    owners = []
    for name, listed in has.items():
        for one in listed:
            left = {(name, one["minor"]): _per_cent(one)}
            if chance(rng, 0.3):
                [device] = [each for each in chosen if each["minor"] == one["minor"]]
                owners.append(_part(rng, device, left))
    policy = rng.choice(["Aligned", "Restricted", "Restricted", ""])
    return {"Policy": policy, "Devices": has, "Owners": [one for one in owners if one]}


def _part(rng: Random, device: Object, free: dict[tuple[str, int], int]) -> Object:
    """A part of what is free of a device, or nothing; it is not free any more."""
    kind, minor = device["type"], device["minor"]
    left = free[kind, minor]
    part = rng.choice([one for one in (0, 25, 50, 100, 100) if one <= left])
    if not part:
        return {}
    free[kind, minor] = left - part
    amounts = {f"{K}{kind}": str(part)}
    if kind == "gpu":
        amounts = {CORE: str(part), RATIO: str(part), MEMORY: str(CARD * part // 100)}
    return {kind: [{"minor": minor, "resources": amounts}]}


def _per_cent(one: Object) -> int:
    return min(int(amount) for name, amount in one["resources"].items() if name != MEMORY)


def _pod_with(name: str, devices: Object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name}
    text = json.dumps(devices)
    return {"metadata": {**metadata, "annotations": {f"{S}device-allocated": text}}}
