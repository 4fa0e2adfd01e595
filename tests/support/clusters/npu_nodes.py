"""Random nodes with NPUs and other vendors' cards, their templates, and a pod that needs some."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import yaml

from tests.support.clusters.selectors import chance

Object = dict[str, Any]
K, S, N = "koordinator.sh/", "scheduling.koordinator.sh/", "node.koordinator.sh/"
CORE, MEMORY, RATIO = f"{K}gpu-core", f"{K}gpu-memory", f"{K}gpu-memory-ratio"
GPU, SHARED, RDMA = f"{K}gpu", f"{K}gpu.shared", f"{K}rdma"
NPU_CORE, NPU_CPU, NPU_DVPP = (f"huawei.com/npu-{one}" for one in ("core", "cpu", "dvpp"))
ISOLATION = f"{K}gpu-isolation-provider"
MODELS = [
    *[("huawei", "Ascend-310P3")] * 6,
    ("huawei", "Ascend-910B"),
    ("huawei", "Ascend-310P3-300I-DUO"),
    *[("cambricon", "MLU370"), ("metax", "C500"), ("nvidia", "A100")] * 2,
    ("", ""),
]
TEMPLATES = {
    "vir01": {MEMORY: "3Gi", NPU_CORE: 1, NPU_CPU: 1, NPU_DVPP: 12},
    "vir02": {MEMORY: "6Gi", NPU_CORE: 2, NPU_CPU: 2, NPU_DVPP: 25},
    "vir02_1c": {MEMORY: "6Gi", NPU_CORE: 2, NPU_CPU: 1, NPU_DVPP: 25},
    "vir04": {MEMORY: "12Gi", NPU_CORE: 4, NPU_CPU: 4, NPU_DVPP: 50},
    "vir04_3c_ndvpp": {MEMORY: "12Gi", NPU_CORE: "4", NPU_CPU: "3"},
    "half": {RATIO: 50, NPU_CORE: 4},
    "zero": {MEMORY: "3Gi", NPU_CORE: 1, NPU_CPU: 1, NPU_DVPP: 0},
}
LOCKS = "cambricon.com/dsmlu.lock", "hami.io/mutex.lock"


def random_npu_node(rng: Random) -> Object:
    """A node with cards of one vendor, pods there, templates, a pod, and locks of the node."""
    vendor, model = rng.choice(MODELS)
    labels = {f"{N}gpu-vendor": vendor, f"{N}gpu-model": model} if vendor else {}
    on_node = dict(labels)
    if chance(rng, 0.2):
        on_node[ISOLATION] = "HAMi-core"
    if chance(rng, 0.05):
        on_node[f"{N}gpu-model"] = "Ascend-910B"
    devices = _devices(rng, vendor)
    return {
        "Node": {"metadata": {"name": "n", "labels": on_node}},
        "Device": {"metadata": {"name": "n", "labels": labels}, "spec": {"devices": devices}},
        "Placed": [_placed(rng, f"p{one}", devices) for one in range(rng.choice([0, 0, 1, 3]))],
        "Pod": _pod(rng, vendor),
        "Templates": _templates(rng),
        "Matched": rng.choice([[NPU_CORE]] * 8 + [[], [CORE, NPU_CORE]]),
        "Locks": [_lock(rng, key) for key in LOCKS if chance(rng, 0.3)],
        "Pods": ["shop/other"] if chance(rng, 0.7) else [],
    }


def _devices(rng: Random, vendor: str) -> list[Object]:
    amounts: Object = {CORE: "100", MEMORY: "16Gi"}
    if vendor == "huawei":
        amounts = {NPU_CORE: "8", NPU_CPU: "7", NPU_DVPP: "100", MEMORY: "21Gi"}
    devices: list[Object] = []
    has_places = chance(rng, 0.7)
    for minor in range(rng.choice([0, 1, 1, 2, 2, 2, 4])):
        one: Object = {"type": "gpu", "id": f"C-{minor}", "minor": minor, "health": True}
        one["resources"] = {**amounts, RATIO: "100"}
        if chance(rng, 0.05):
            one["health"] = False
        if has_places:
            one["topology"] = {"socketID": 0, "nodeID": minor // 2, "pcieID": f"pcie-{minor}"}
        devices.append(one)
    nic: Object = {"type": "rdma", "id": "0000:3b:00.0", "minor": 0, "health": True}
    return [*devices, {**nic, "resources": {RDMA: "100"}}] if chance(rng, 0.2) else devices


def _placed(rng: Random, name: str, devices: list[Object]) -> Object:
    gpus = [one for one in devices if one["type"] == "gpu"]
    has: Object = {}
    if gpus:
        device = rng.choice(gpus)
        amounts = device["resources"]
        part: Object = {RATIO: "50", CORE: "50", MEMORY: "8Gi"}
        if NPU_CORE in amounts:
            size = {"3Gi": "14", "6Gi": "28", "12Gi": "57"}
            template = rng.choice([TEMPLATES["vir01"], TEMPLATES["vir02"], TEMPLATES["vir04"]])
            part = {name: str(amount) for name, amount in template.items()}
            part |= {RATIO: size[part[MEMORY]]}
        has = {"gpu": [{"minor": device["minor"], "resources": part}]}
    metadata = {"name": name, "namespace": "shop", "uid": name}
    annotations = {f"{S}device-allocated": json.dumps(has)}
    return {"metadata": {**metadata, "annotations": annotations}}


def _templates(rng: Random) -> str:
    if chance(rng, 0.1):
        return ""
    names = [name for name in TEMPLATES if chance(rng, 0.85)]
    found: Object = {"huawei-Ascend-310P3": {name: TEMPLATES[name] for name in names}}
    if chance(rng, 0.5):
        found["huawei-Ascend-910B"] = {"vir04": TEMPLATES["vir04"]}
    if chance(rng, 0.1):
        found["huawei-Ascend-310P3"]["a_vir02"] = TEMPLATES["vir02"]
    if chance(rng, 0.2):
        found["nvidia-A100"] = {"half": {CORE: 50, RATIO: 50}}
    return yaml.safe_dump(found)


def _pod(rng: Random, vendor: str) -> Object:
    labels = {ISOLATION: "HAMi-core"} if chance(rng, 0.2) and vendor in ("nvidia", "") else {}
    requests = _parts_of_npus(rng) if vendor == "huawei" or chance(rng, 0.1) else _parts(rng)
    if chance(rng, 0.1):
        requests |= {RDMA: "1"}
    if chance(rng, 0.02):
        requests = {RDMA: "1"}
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    metadata = {"name": "p", "namespace": "shop", "uid": "uid-p", "labels": labels}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def _parts_of_npus(rng: Random) -> Object:
    if chance(rng, 0.25):
        cards = rng.choice([1, 1, 2, 3])
        return {NPU_CORE: str(8 * cards), RATIO: str(100 * cards)}
    template = rng.choice(list(TEMPLATES.values()))
    requests = {name: str(amount) for name, amount in template.items()}
    if RATIO not in requests:
        requests |= {SHARED: "1"}
    if chance(rng, 0.1):
        requests[rng.choice(sorted(requests))] = "2"
    return requests


def _parts(rng: Random) -> Object:
    return dict(
        rng.choice(
            [
                {GPU: "100"},
                {GPU: "200"},
                {GPU: "50"},
                {CORE: "50", RATIO: "50"},
                {CORE: "25", MEMORY: "4Gi"},
                {CORE: "25", MEMORY: "100Mi"},
                {CORE: "5", MEMORY: str((1 << 30) + 5)},
                {MEMORY: "4Gi"},
                {MEMORY: "1Ki"},
                {SHARED: "2", CORE: "50", RATIO: "50"},
            ]
        )
    )


def _lock(rng: Random, key: str) -> Object:
    age = rng.choice([0, 1, 60, 290, 310, 600, -60])
    by = rng.choice(["shop/other", "shop/other", "shop/gone"])
    raw = rng.choice([""] * 7 + ["soon", "a,b,c"])
    return {"Key": key, "Age": age, "By": by, "Raw": raw}
