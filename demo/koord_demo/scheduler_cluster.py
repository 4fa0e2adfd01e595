"""A made-up cluster for the scheduler's demo: nodes in three zones, and pods of forty classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

Manifest = Mapping[str, Any]

NAMESPACE = "shop"
GPU = "nvidia.com/gpu"
_HOST, _ZONE, _POOL = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "pool"
_BLOCK = 12
"""Nodes; in each block of one zone there is one for batch pods, and one with GPUs."""
_SIZES = ((16, 64), (32, 128), (64, 256))
"""Cores and GiB of nodes."""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """Pods that are alike: ``share`` is how many there are, relative to other templates."""

    name: str
    share: int
    requests: Mapping[str, str]
    spec: Mapping[str, Any] = field(default_factory=dict)
    ports: tuple[int, ...] = ()


def nodes(number: int) -> Iterator[bytes]:
    """Nodes as JSON."""
    for place in range(number):
        pool = {_BLOCK - 1: "gpu", _BLOCK - 2: "batch"}.get(place % _BLOCK, "general")
        cores, memory = _SIZES[place % len(_SIZES)]
        name = f"{pool}-{place:04}"
        labels = {_HOST: name, _ZONE: f"zone-{'abc'[place // _BLOCK % 3]}", _POOL: pool}
        if place % 4 == 0:
            labels["disk"] = "ssd"
        amounts = {"cpu": str(cores), "memory": f"{memory}Gi", "pods": "110"}
        if pool == "gpu":
            amounts[GPU] = "8"
        taints = [] if pool == "general" else [_taint(pool)]
        node = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": amounts},
        }
        yield json.dumps(node).encode()


def pods(number: int, rng: Random) -> list[bytes]:
    """Pods as JSON, in the order in which they are created."""
    templates = list(_templates())
    shares = sum(template.share for template in templates)
    made = [
        pod(template, place)
        for template in templates
        for place in range(number * template.share // shares + 1)
    ]
    rng.shuffle(made)
    return made[:number]


def pod(template: PodTemplate, place: int) -> bytes:
    """One pod of a template as JSON."""
    name = f"{template.name}-{place:03}"
    container = {
        "name": "main",
        "image": template.name,
        "resources": {"requests": template.requests},
        "ports": [{"hostPort": port} for port in template.ports],
    }
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "labels": _app(template.name)}
    spec = {"containers": [container], **template.spec}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


def _templates() -> Iterator[PodTemplate]:
    """Forty of them."""
    for n in range(12):
        size = _size(500 + 250 * (n % 4), 1 + n % 4)
        yield PodTemplate(
            f"web-{n}", 25, size, {"topologySpreadConstraints": [_spread(f"web-{n}")]}
        )
    for n in range(6):
        apart = {"podAntiAffinity": _required([_term(f"db-{n}", _HOST)])}
        spread = [_spread(f"db-{n}")]
        spec = {"affinity": apart, "topologySpreadConstraints": spread, "priority": 1000}
        yield PodTemplate(f"db-{n}", 5, _size(4000, 16), spec)
    for n in range(6):
        near = {"podAffinity": _preferred(podAffinityTerm=_term(f"web-{n}", _ZONE))}
        yield PodTemplate(f"cache-{n}", 10, _size(1000, 8), {"affinity": near})
    for n in range(8):
        there = {"nodeAffinity": _preferred(preference=_label(_POOL, "batch"))}
        spec = {"affinity": there, "tolerations": [_toleration("batch")], "priority": -10}
        yield PodTemplate(f"batch-{n}", 55, _size(1000 + 500 * (n % 3), 2 + n % 3), spec)
    for n, share in enumerate((20, 8, 4, 3)):
        size = _size(1000 * 2**n, 4 * 2**n) | {GPU: str(2**n)}
        yield PodTemplate(f"train-{2**n}gpu", share, size, {"tolerations": [_toleration("gpu")]})
    for n in range(4):
        on_ssd = {"nodeAffinity": _required({"nodeSelectorTerms": [_label("disk", "ssd")]})}
        yield PodTemplate(f"edge-{n}", 20, _size(500, 2), {"affinity": on_ssd}, (8000 + n,))


def _app(name: str) -> dict[str, str]:
    return {"app": name}


def _size(millicores: int, gibibytes: int) -> dict[str, str]:
    return {"cpu": f"{millicores}m", "memory": f"{gibibytes}Gi"}


def _taint(pool: str) -> dict[str, str]:
    return {"key": _POOL, "value": pool, "effect": "NoSchedule"}


def _toleration(pool: str) -> dict[str, str]:
    return {"key": _POOL, "operator": "Equal", "value": pool, "effect": "NoSchedule"}


def _label(key: str, value: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def _term(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": _app(app)}}


def _required(terms: object) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _preferred(**preference: object) -> dict[str, Any]:
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, **preference}],
    }


def _spread(app: str) -> dict[str, Any]:
    return {
        "topologyKey": _ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": _app(app)},
    }
