"""Inputs for what prod pods may lend: pods, percentiles of their models, the node."""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 2000
DAY = 86400


def one(random: Random) -> Object:
    """One input; ages are in seconds."""
    pods = [_pod(random, number) for number in range(random.randint(0, 8))]
    uids = [pod["metadata"]["uid"] for pod in pods]
    parts = ("__node-sys__", "__node-koord-prod__", "__node-__", "__node-koord-batch__")
    models = {uid: _model(random) for uid in uids if random.random() < 0.93}
    models |= {uid: _model(random) for uid in parts if random.random() < 0.97}
    allocatable = {"cpu": f"{random.randint(1, 64000)}m", "memory": str(random.getrandbits(37))}
    node: Object = {"metadata": {"name": "n", "annotations": {}}, "status": {}}
    if random.random() < 0.97:
        node["status"]["allocatable"] = allocatable
    return {
        "pods": pods,
        "ages": [random.choice((3600, DAY - 3600, DAY + 3600, 30 * DAY)) for _ in pods],
        "node": node,
        "models": models,
        "margin": random.choice((0, 10, 10, 35)),
        "cold": random.choice((DAY, DAY, 7200)),
    }


def _pod(random: Random, number: int) -> Object:
    labels = {}
    if random.random() < 0.9:
        labels["koordinator.sh/priority-class"] = random.choice(
            ("koord-prod", "koord-prod", "koord-prod", "koord-mid", "koord-batch", "koord-free")
        )
    requests = {"cpu": f"{random.randint(0, 8000)}m", "memory": str(random.getrandbits(33))}
    metadata: Object = {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}"}
    if random.random() < 0.1:
        metadata["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    return {
        "metadata": {**metadata, "labels": labels},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {
            "phase": random.choice(("Running",) * 5 + ("Pending", "Succeeded", "Failed")),
            "qosClass": "Burstable",
        },
    }


def _model(random: Random) -> Object:
    cpu, memory = random.choice((500, 4000)), random.choice((28, 33))
    return {
        name: {
            "cpu": f"{random.randint(25, cpu)}m",
            "memory": str(random.getrandbits(memory)),
        }
        for name in ("p95", "p98")
    }
