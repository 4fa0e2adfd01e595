"""GPUs for pods, by a real API server: no part of a card is in two pods, koordlet reads which."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from koord_model.keys import (
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    LABEL_GPU_MODEL,
    LABEL_GPU_VENDOR,
    NPU_CORE,
    NPU_CPU,
)

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "training"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {
                    "enabled": [
                        {"name": "DeviceShare"},
                        {"name": "NodeNUMAResource"},
                        {"name": "Reservation", "weight": 5000},
                    ]
                }
            },
            "pluginConfig": [
                {"name": "DeviceShare", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
            ],
        }
    ],
}
CARDS = 4


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    gate = "--feature-gates=DevicePluginAdaption=true"
    with deployed_scheduler(cluster, json.dumps(CONFIG), gate) as made:
        yield made


def put_node(cluster: RealCluster, name: str) -> None:
    """A node with some GPUs, and what koordlet says of them."""
    cluster.ready_node(name, {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: str(100 * CARDS)})
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    devices = [card(name, minor) for minor in range(CARDS)]
    cluster.apply({**kind, "metadata": {"name": name}, "spec": {"devices": devices}})


def card(node: str, minor: int) -> dict[str, Any]:
    return {
        "type": "gpu",
        "id": f"GPU-{node}-{minor}",
        "minor": minor,
        "health": True,
        "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"},
        "topology": {"socketID": 0, "nodeID": 0, "pcieID": f"p{minor // 2}"},
    }


def pod(name: str, per_cent: int) -> dict[str, Any]:
    amounts = {"cpu": "1", GPU: str(per_cent)}
    resources = {"requests": amounts, "limits": {GPU: str(per_cent)}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def only(node: str) -> dict[str, Any]:
    """The affinity of what has to be on one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


async def test_no_card_is_given_away_twice(
    cluster: RealCluster, scheduler: SchedulerProgram
) -> None:
    cluster.namespace(NAMESPACE)
    for name in ("g1", "g2"):
        put_node(cluster, name)
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")
    sizes = [50] * 6 + [200, 100, 100]
    cluster.apply(*(pod(f"p{number}", size) for number, size in enumerate(sizes)))

    def bound() -> list[dict[str, Any]]:
        pods = cluster.get("pods", "-n", NAMESPACE)["items"]
        return pods if all(one["spec"].get("nodeName") for one in pods) else []

    pods = await until(bound, "pods with nodes")
    assert pods is not None
    taken: Counter[str] = Counter()
    for one in pods:
        given = json.loads(one["metadata"]["annotations"][ANNOTATION_DEVICE_ALLOCATED])
        for device in given["gpu"]:
            assert device["id"] == f"GPU-{one['spec']['nodeName']}-{device['minor']}"
            taken[device["id"]] += int(device["resources"][GPU_CORE])
    assert sum(taken.values()) == sum(sizes)
    assert max(taken.values()) == 100


def put_cpus(cluster: RealCluster, name: str) -> None:
    """What koordlet says of a node's CPUs: sixteen cores of two."""
    detail = [{"id": cpu, "core": cpu // 2, "node": 0, "socket": 0} for cpu in range(32)]
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology"}
    metadata = {"name": name, "annotations": annotations}
    cluster.apply({**kind, "metadata": metadata, "topologyPolicies": ["None"], "zones": []})


async def test_reserved_cards_and_cpus_are_their_owners(
    cluster: RealCluster, scheduler: SchedulerProgram
) -> None:
    cluster.namespace(NAMESPACE)
    put_node(cluster, "g3")
    put_cpus(cluster, "g3")
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")
    others, owner = pod("others", 300), pod("owner", 200)
    for one in (others, owner):
        one["spec"] |= {"affinity": only("g3"), "priorityClassName": "koord-prod"}
        one["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR"
    spec = {name: one for name, one in owner["spec"].items() if name != "priorityClassName"}
    cluster.apply(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "for-owner"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"koordinator.sh/qosClass": "LSR"}},
                    "spec": {**spec, "priority": 9500},
                },
                "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            },
        }
    )

    def kept() -> Any:
        found = cluster.get("reservations", "for-owner")
        return found if found["status"].get("phase") == "Available" else None

    reservation = await until(kept, "devices")
    assert reservation is not None
    cluster.apply(others)
    cluster.apply(owner)

    def bound() -> Any:
        found = cluster.get("pods", "owner", "-n", NAMESPACE)
        return found if found["spec"].get("nodeName") else None

    given = await until(bound, "a node")
    assert given is not None
    first_written, written = (one["metadata"]["annotations"] for one in (reservation, given))
    first, second = (
        {device["id"] for device in json.loads(one[ANNOTATION_DEVICE_ALLOCATED])["gpu"]}
        for one in (first_written, written)
    )
    assert first == second
    assert len(first) == 2
    assert json.loads(first_written[ANNOTATION_RESOURCE_STATUS])["cpuset"]
    assert written[ANNOTATION_RESOURCE_STATUS] == first_written[ANNOTATION_RESOURCE_STATUS]
    assert "nodeName" not in cluster.get("pods", "others", "-n", NAMESPACE)["spec"]


def put_node_of(cluster: RealCluster, name: str, vendor: str, amounts: dict[str, str]) -> None:
    """A node with one card of a vendor, with these amounts."""
    labels = {LABEL_GPU_VENDOR: vendor, LABEL_GPU_MODEL: "M"}
    cluster.ready_node(name, {"cpu": "32", "memory": "64Gi", "pods": "110", **amounts})
    cluster.kubectl("label", "node", name, *(f"{key}={value}" for key, value in labels.items()))
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    one = {**card(name, 0), "resources": {GPU_MEMORY_RATIO: "100", **amounts}}
    metadata = {"name": name, "labels": labels}
    cluster.apply({**kind, "metadata": metadata, "spec": {"devices": [one]}})


def pod_of(name: str, amounts: dict[str, str]) -> dict[str, Any]:
    made = pod(name, 0)
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return made


async def test_device_plugins_find_pods_one_after_the_other(
    cluster: RealCluster, scheduler: SchedulerProgram
) -> None:
    cluster.namespace(NAMESPACE)
    put_node_of(cluster, "m1", "metax", {GPU_CORE: "100", GPU_MEMORY: "16Gi"})
    npu = {NPU_CORE: "8", NPU_CPU: "7", GPU_MEMORY: "21Gi", GPU_SHARED: "1"}
    put_node_of(cluster, "h1", "huawei", npu)
    part = {NPU_CORE: "2", NPU_CPU: "2", GPU_MEMORY: "6Gi"}
    cluster.apply(pod_of("npu", {**part, GPU_SHARED: "1"}))
    names = ("x", "y")
    cluster.apply(*(pod_of(name, {GPU_CORE: "50", GPU_MEMORY: "8Gi"}) for name in names))
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")

    def bound(*names: str) -> list[dict[str, Any]]:
        pods = [cluster.get("pods", name, "-n", NAMESPACE) for name in names]
        return [one for one in pods if one["spec"].get("nodeName")]

    def lock() -> str:
        annotations = cluster.get("node", "m1")["metadata"].get("annotations", {})
        return str(annotations.get("hami.io/mutex.lock", ""))

    found = await until(lambda: bound(*names), "the first of two pods")
    assert found is not None
    [first] = found
    assert lock().endswith(f",{NAMESPACE},{first['metadata']['name']}")
    await until(lambda: "is locked for" in scheduler.said, "the second one refused")
    assert len(bound(*names)) == 1
    # As its device plugin does, once it has given the pod its card.
    cluster.kubectl("annotate", "node", "m1", "hami.io/mutex.lock-")
    await until(lambda: len(bound(*names)) == 2, "the second one")

    assert bound("npu") == [], "there is no template"
    templates = {"data.yaml": json.dumps({"huawei-M": {"vir02": part}})}
    metadata = {"name": "gpu-shared-resource-templates", "namespace": "koordinator-system"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": templates}
    )
    given = await until(lambda: bound("npu"), "a part of an NPU")
    assert given is not None
    assert given[0]["metadata"]["annotations"]["huawei.com/npu-core"] == "0-vir02"
