"""Random nodes and their taints."""

from __future__ import annotations

from random import Random

from tests.support.clusters.resources import IMAGES
from tests.support.clusters.selectors import (
    HOSTNAME,
    NODE_LABELS,
    REGION,
    ZONE,
    Object,
    chance,
    some,
)

TAINT_KEYS = ["dedicated", "spot", "node.kubernetes.io/not-ready"]
TAINT_VALUES = ["a", "b", "10", ""]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
FEATURES = ["RestartAllContainersOnContainerExits", "ExtendWebSocketsToKubelet"]
"""Pods need the first one to restart all containers; nothing in a pod needs the second."""
MEBIBYTE = 1 << 20


def taint(rng: Random) -> Object:
    one = {
        "key": rng.choice(TAINT_KEYS),
        "effect": rng.choice([*EFFECTS, *["PreferNoSchedule"] * 3]),
    }
    if chance(rng, 0.7):
        one["value"] = rng.choice(TAINT_VALUES)
    return one


def taints(rng: Random) -> list[Object]:
    """Up to four taints; each pair of key and effect once."""
    drawn = [taint(rng) for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))]
    return [*{(one["key"], one["effect"]): one for one in drawn}.values()]


def toleration(rng: Random, comparing: bool = False) -> Object:
    """A toleration; without a key it tolerates all keys, without an effect all effects.

    ``comparing`` adds Lt and Gt, which need the gate TaintTolerationComparisonOperators.
    """
    one: Object = {}
    kind = rng.random()
    if kind < 0.08:
        one["operator"] = "Exists"
    elif kind < 0.4:
        one.update(key=rng.choice(TAINT_KEYS), operator="Exists")
    elif comparing and kind < 0.8:
        value = rng.choice(["9", "10", "11", "-1"])
        one.update(key=rng.choice(TAINT_KEYS), operator=rng.choice(["Lt", "Gt"]), value=value)
    else:
        one.update(key=rng.choice(TAINT_KEYS), value=rng.choice(TAINT_VALUES))
        if chance(rng, 0.6):
            one["operator"] = "Equal"
    if chance(rng, 0.65):
        one["effect"] = rng.choice(EFFECTS)
    if one.get("effect") == "NoExecute" and chance(rng, 0.5):
        one["tolerationSeconds"] = rng.choice([0, 300])
    return one


def tolerations(rng: Random, comparing: bool = False) -> list[Object]:
    drawn = [toleration(rng, comparing) for _ in range(rng.choice([0, 1, 2, 3, 4]))]
    if chance(rng, 0.3):
        drawn.append({**UNSCHEDULABLE, "operator": "Exists"})
    return drawn


def allocatable(rng: Random, rich: bool) -> Object:
    amounts = {
        "cpu": rng.choice(["2", "3900m", "7.5", "8", "16", "32", "64"]),
        "memory": rng.choice(["2Gi", "4000Mi", "8Gi", "16G", "16Gi", "64Gi", "64Gi"]),
        "pods": "3" if chance(rng, 0.05) else "110",
    }
    if chance(rng, 0.03):
        amounts.pop(rng.choice(["cpu", "memory", "pods"]))
    if not rich:
        return amounts
    extra = {
        "ephemeral-storage": ["4Gi", "20Gi", "100Gi"],
        "hugepages-2Mi": ["0", "128Mi", "1Gi"],
        "example.com/gpu": ["0", "2", "8", "16"],
        "kubernetes.io/batch-cpu": ["2k", "8k", "20k"],
        "kubernetes.io/batch-memory": ["2Gi", "8Gi"],
    }
    for name, values in extra.items():
        if chance(rng, 0.85):
            amounts[name] = rng.choice(values)
    return amounts


def images(rng: Random) -> list[Object]:
    """The images on a node: tags with and without a digest beside them, up to 3 GiB."""
    rows = []
    for name in some(rng, [*IMAGES, "small:latest", "registry.example:5000/big:latest"], 0, 5):
        size = rng.choice([3, 22, 24, 90, 333, 700, 1500, 3000]) * MEBIBYTE + rng.randint(0, 9999)
        names = [name, f"{name.split(':')[0]}@sha256:0{size}"] if chance(rng, 0.3) else [name]
        rows.append({"names": names, "sizeBytes": size})
    return rows


def node(rng: Random, name: str, themes: set[str], amounts: Object | None = None) -> Object:
    """A node as far as the themes need one, with its own or the given allocatable amounts."""
    shares = {ZONE: 0.95, REGION: 0.9, "rack": 0.9, "disk": 0.6, "gen": 0.6}
    labels = {
        key: rng.choice(NODE_LABELS[key]) for key, share in shares.items() if chance(rng, share)
    }
    if chance(rng, 0.95):
        labels[HOSTNAME] = name
    spec: Object = {}
    if "taints" in themes and (drawn := taints(rng)):
        spec["taints"] = drawn
    if "unschedulable" in themes and chance(rng, 0.4):
        spec["unschedulable"] = True
        if chance(rng, 0.8):
            spec["taints"] = [*spec.get("taints", []), dict(UNSCHEDULABLE)]
    status: Object = {"allocatable": amounts or allocatable(rng, "resources" in themes)}
    if "images" in themes and (rows := images(rng)):
        status["images"] = rows
    if "features" in themes and (declared := some(rng, FEATURES, 0, 2)):
        status["declaredFeatures"] = sorted(declared)
    one: Object = {"metadata": {"name": name, "labels": labels}, "status": status}
    return {**one, "spec": spec} if spec else one
