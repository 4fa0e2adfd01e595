"""Nodes, of which some have NUMA nodes and some of these have GPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DEVICES, NODE_TOPOLOGIES, NODES
from koord_model.keys import (
    ANNOTATION_CPU_TOPOLOGY,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_NUMA_TOPOLOGY_POLICY,
)

from tests.apiserver.scheduler_cluster import ScheduledCluster, for_all
from tests.support.listing import listed

CPUS = 8
ROOM = (CPUS * 1000, 110)
CARDS = 4


class ChaosNodes(ScheduledCluster):
    """They are called n0, n1, …; each tenth has NUMA nodes, each twentieth GPUs as well."""

    async def nodes(self, *names: str) -> None:
        await for_all(self._node, names)

    async def hardware(self, *names: str) -> None:
        """What koordlets say of them, which stays while a node is away."""

        async def say(name: str) -> None:
            if _has_zones(name):
                await self.client.create(NODE_TOPOLOGIES, _topology(name))
            if _has_cards(name):
                await self.client.create(DEVICES, _device(name))

        await for_all(say, names)

    async def open_nodes(self) -> None:
        """None is tainted any more."""

        async def open_one(name: str) -> None:
            await self.client.patch(NODES, name, {"spec": {"taints": None}})

        nodes, _ = await listed(self.client, NODES)
        await for_all(open_one, [one["metadata"]["name"] for one in nodes])

    async def _node(self, name: str) -> None:
        head = {"apiVersion": "v1", "kind": "Node"}
        await self.client.create(
            NODES, {**head, "metadata": {"name": name, "labels": _labels(name)}}
        )
        amounts = {"cpu": str(CPUS), "memory": "64Gi", "pods": "110"}
        if _has_cards(name):
            amounts[GPU] = str(100 * CARDS)
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.client.patch(NODES, name, status, subresource="status")
        # The API server takes new nodes for not ready.
        await self.client.patch(NODES, name, {"spec": {"taints": None}})


def _number(name: str) -> int:
    return int(name.removeprefix("n"))


def _has_zones(name: str) -> bool:
    return _number(name) % 10 == 0


def _has_cards(name: str) -> bool:
    return _number(name) % 20 == 0


def _labels(name: str) -> Mapping[str, str]:
    policy = {LABEL_NUMA_TOPOLOGY_POLICY: "SingleNUMANode"} if _number(name) % 40 == 0 else {}
    return {"kubernetes.io/hostname": name, **policy}


def _topology(name: str) -> Object:
    detail = [{"id": cpu, "core": cpu // 2, "node": cpu // 4, "socket": 0} for cpu in range(CPUS)]
    has = [
        {"name": key, "capacity": amount, "allocatable": amount, "available": amount}
        for key, amount in (("cpu", str(CPUS // 2)), ("memory", "32Gi"))
    ]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": has} for zone in (0, 1)]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": name,
            "annotations": {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})},
        },
        "topologyPolicies": ["None"],
        "zones": zones,
    }


def _device(name: str) -> Object:
    cards = [_card(name, minor) for minor in range(CARDS)]
    head = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    return {**head, "metadata": {"name": name}, "spec": {"devices": cards}}


def _card(node: str, minor: int) -> dict[str, Any]:
    return {
        "type": "gpu",
        "id": f"GPU-{node}-{minor}",
        "minor": minor,
        "health": True,
        "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"},
        "topology": {"socketID": 0, "nodeID": minor // 2, "pcieID": f"p{minor // 2}"},
    }
