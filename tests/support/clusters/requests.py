"""Random clusters for Koordinator's plugins that score by requests."""

from __future__ import annotations

from random import Random
from typing import Any

GPU, BATCH = "nvidia.com/gpu", "kubernetes.io/batch-cpu"
AMOUNTS = {
    "cpu": ["100m", "1", "2500m"],
    "memory": ["128Mi", "1Gi", "3G"],
    "ephemeral-storage": ["1Gi"],
    GPU: ["1", "2"],
    BATCH: ["500", "2000"],
    "hugepages-2Mi": ["4Mi"],
}


def random_request_cluster(rng: Random) -> dict[str, Any]:
    """Arguments ``fitPlus`` and ``scarce``; ``nodes``, ``assigned`` pods, ``pods`` that wait."""
    nodes = [_node(rng, f"n{number}") for number in range(rng.randint(1, 3))]
    names = [one["metadata"]["name"] for one in nodes]
    assigned = [_pod(rng, f"p{number}") for number in range(rng.randint(0, 4))]
    for one in assigned:
        one["spec"]["nodeName"] = rng.choice(names)
    resources = rng.sample(sorted(AMOUNTS), rng.randint(0, 4))
    types = ["LeastAllocated", "MostAllocated"]
    return {
        "fitPlus": {
            "resources": {
                one: {"type": rng.choice(types), "weight": rng.choice([0, 1, 3, 100])}
                for one in resources
            }
        },
        "scarce": {"resources": rng.sample(sorted(AMOUNTS), rng.randint(0, 3))},
        "nodes": nodes,
        "assigned": assigned,
        "pods": [_pod(rng, "w")],
    }


def _node(rng: Random, name: str) -> dict[str, Any]:
    allocatable = {"cpu": rng.choice(["2", "4"]), "memory": "8Gi", "pods": "110"}
    for one, amount in {
        "ephemeral-storage": "10Gi",
        GPU: "4",
        BATCH: "3000",
        "hugepages-2Mi": "8Mi",
        "example.com/none": "0",
    }.items():
        if rng.random() < 0.4:
            allocatable[one] = amount
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable}}


def _container(rng: Random, name: str) -> dict[str, Any]:
    chances = {"cpu": 0.7, "memory": 0.7}
    asked = {
        one: rng.choice([*amounts, "0"] if rng.random() < 0.1 else amounts)
        for one, amounts in AMOUNTS.items()
        if rng.random() < chances.get(one, 0.25)
    }
    return {"name": name, "resources": {"requests": asked}}


def _pod(rng: Random, name: str) -> dict[str, Any]:
    containers = [_container(rng, f"c{number}") for number in range(rng.choice([1, 1, 2]))]
    spec: dict[str, Any] = {"containers": containers}
    if rng.random() < 0.2:
        always = {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
        spec["initContainers"] = [{**_container(rng, "i1"), **always}, _container(rng, "i2")]
    if rng.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": "3", "memory": "4Gi"}}
    return {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec}
