"""Random clusters where DeviceClasses back extended resources, and pods that ask for these."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.clusters.devices import Object, chance, random_device_cluster

GPU, BIG, PLAIN = "example.com/gpu", "example.com/big", "example.com/plain"
IMPLICIT = "deviceclass.resource.kubernetes.io/odd"
OTHER = "example.com/other"
"""Nothing but device plugins have it."""


def random_extended_cluster(rng: Random) -> Object:
    """As ``random_device_cluster``; ``scored`` are resources that are scored beside CPU.

    ``balanced`` are those that NodeResourcesBalancedAllocation compares.
    """
    given = random_device_cluster(rng)
    for one in given["classes"]:
        _back(rng, one)
    if chance(rng, 0.85):
        given["classes"].append({"metadata": {"name": "plain"}, "spec": {}})
        given["classes"][-1]["spec"]["extendedResourceName"] = PLAIN
    backed = [one["spec"].get("extendedResourceName") for one in given["classes"]]
    for node in given["nodes"]:
        node["status"] = {"allocatable": _allocatable(rng, backed)}
    for who in ("pod", "next"):
        spec = given[who]["spec"]
        if who == "next" or chance(rng, 0.8):
            del spec["resourceClaims"]
            given[who]["status"] = {}
        spec["containers"] = [_container(rng, f"c{at}") for at in range(rng.choice([1, 1, 1, 2]))]
        spec["initContainers"] = [
            _container(rng, f"i{at}", is_sidecar=chance(rng, 0.4))
            for at in range(rng.choice([0, 0, 0, 1, 2, 3]))
        ]
    if chance(rng, 0.02):
        given["claims"].append(_left_over(given["pod"]))
    given["scored"] = rng.sample([GPU, BIG, PLAIN, IMPLICIT, OTHER], rng.choice([0, 1, 2]))
    # kube-scheduler crashes where a class with selectors backs one of these.
    given["balanced"] = rng.sample([PLAIN, OTHER, "memory"], rng.choice([1, 2]))
    return given


def _allocatable(rng: Random, backed: list[str]) -> dict[str, str]:
    found = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    for name in (GPU, BIG, PLAIN, IMPLICIT):
        if chance(rng, 0.15):
            found[name] = rng.choice(["0", "1", "4"] if name in backed else ["1", "4"])
    if chance(rng, 0.5):
        found[OTHER] = "2"
    return found


def _back(rng: Random, one: Object) -> None:
    name = one["metadata"]["name"]
    created = f"2026-01-0{rng.randrange(1, 3)}T00:00:00Z"
    one["metadata"]["creationTimestamp"] = created
    if name == "any" and chance(rng, 0.9):
        one["spec"]["extendedResourceName"] = GPU
    elif name == "big" and chance(rng, 0.9):
        one["spec"]["extendedResourceName"] = rng.choice([BIG, BIG, BIG, GPU])


def _container(rng: Random, name: str, *, is_sidecar: bool = False) -> Object:
    requests = {"cpu": "100m"} if chance(rng, 0.5) else {}
    names = [GPU, GPU, GPU, GPU, PLAIN, PLAIN, BIG, IMPLICIT] * 3 + [OTHER]
    for resource in rng.sample(names, rng.choice([0, 0, 1, 1, 1, 2])):
        requests[resource] = rng.choice(["1", "1", "1", "1", "1", "2", "3", "0"])
    found: Object = {"name": name, "image": "i", "resources": {"requests": requests}}
    return found | ({"restartPolicy": "Always"} if is_sidecar else {})


def _left_over(pod: Object) -> Any:
    """The claim of an attempt that failed."""
    uid = pod["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    return {
        "metadata": {
            "name": "p-extended-resources-0",
            "namespace": "default",
            "uid": "uid-left-over",
            "resourceVersion": "7",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}},
    }
