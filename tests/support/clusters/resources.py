"""Random containers with requests, and pods as they are after a resize."""

from __future__ import annotations

from random import Random

from tests.support.clusters.selectors import Object, chance, some

CPU = ["0", "1m", "50m", "100m", "0.25", "500m", "1", "1500m", "2", "0.0005"]
MEMORY = ["0", "1Mi", "64Mi", "128M", "256Mi", "0.5Gi", "1Gi", "1e9", "1500Mi", "2Gi"]
EXTENDED = {
    "ephemeral-storage": ["0", "100Mi", "1Gi", "4Gi"],
    "hugepages-2Mi": ["2Mi", "16Mi", "64Mi"],
    "example.com/gpu": ["0", "1", "2"],
    "kubernetes.io/batch-cpu": ["500", "1k", "2500"],
    "kubernetes.io/batch-memory": ["256Mi", "1Gi"],
}
NOT_OVERCOMMITTED = {"hugepages-2Mi", "example.com/gpu", "kubernetes.io/batch-cpu"}
IMAGES = [
    "registry.example/app:1",
    "registry.example/app:latest",
    "registry.example:5000/big",
    "registry.example:5000/big:2",
    "small",
]


def requests(rng: Random, rich: bool) -> Object:
    """Requests of a container; cpu and memory may be missing or zero."""
    amounts: Object = {}
    if chance(rng, 0.75):
        amounts["cpu"] = rng.choice(CPU)
    if chance(rng, 0.7):
        amounts["memory"] = rng.choice(MEMORY)
    if rich and chance(rng, 0.25):
        for name in some(rng, [*EXTENDED], 1, 2):
            amounts[name] = rng.choice(EXTENDED[name])
    if "hugepages-2Mi" in amounts and not amounts.keys() & {"cpu", "memory"}:
        amounts["cpu"] = rng.choice(CPU)
    return amounts


def container(rng: Random, name: str, rich: bool) -> Object:
    one: Object = {"name": name, "image": rng.choice(IMAGES)}
    amounts = requests(rng, rich)
    if amounts:
        one["resources"] = {"requests": amounts}
        limits = {key: value for key, value in amounts.items() if key in NOT_OVERCOMMITTED}
        if "kubernetes.io/batch-memory" in amounts:
            limits["kubernetes.io/batch-memory"] = amounts["kubernetes.io/batch-memory"]
        if limits:
            one["resources"]["limits"] = limits
    return one


def containers(rng: Random, rich: bool) -> Object:
    """The containers of a pod spec: init containers and sidecars in any order."""
    spec: Object = {
        "containers": [
            container(rng, f"c{number}", rich) for number in range(rng.choice([1, 1, 1, 2, 3]))
        ]
    }
    if rich and chance(rng, 0.4):
        inits = []
        for number in range(rng.randint(1, 4)):
            one = container(rng, f"i{number}", rich)
            if chance(rng, 0.5):
                one["restartPolicy"] = "Always"
            inits.append(one)
        spec["initContainers"] = inits
    if rich and chance(rng, 0.15):
        spec["overhead"] = {
            "cpu": rng.choice(["10m", "250m"]),
            "memory": rng.choice(["32Mi", "1M"]),
        }
    if rich and chance(rng, 0.15):
        spec["resources"] = pod_level(rng, spec)
    return spec


def pod_level(rng: Random, spec: Object) -> Object:
    """Pod-level requests: containers then ask for nothing, or for little."""
    for one in [*spec["containers"], *spec.get("initContainers", [])]:
        one.pop("resources", None)
        if chance(rng, 0.4):
            one["resources"] = {"requests": {"cpu": rng.choice(["1m", "50m", "100m"])}}
        if chance(rng, 0.2):
            one.setdefault("resources", {}).setdefault("requests", {})["example.com/gpu"] = "1"
            one["resources"]["limits"] = {"example.com/gpu": "1"}
    amounts = {"cpu": rng.choice(["900m", "1", "3"])}
    if chance(rng, 0.7):
        amounts["memory"] = rng.choice(["256Mi", "1Gi", "2G"])
    if chance(rng, 0.2):
        amounts["hugepages-2Mi"] = "4Mi"
        return {"requests": amounts, "limits": {"hugepages-2Mi": "4Mi"}}
    return {"requests": amounts}


def resized_status(rng: Random, spec: Object) -> Object:
    """The status of a running pod whose containers, or the pod itself, were resized in place."""
    status: Object = {}
    for group, field in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        rows = [_container_status(rng, one) for one in spec.get(group, []) if chance(rng, 0.75)]
        if rows:
            status[field] = rows
    if "resources" in spec and chance(rng, 0.7):
        status["resources"] = {"requests": _cpu_and_memory(rng)}
        if chance(rng, 0.7):
            status["allocatedResources"] = _cpu_and_memory(rng)
    if chance(rng, 0.4):
        reason = rng.choice(["Infeasible", "Deferred"])
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return status


def _cpu_and_memory(rng: Random) -> Object:
    amounts = {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY)}
    return dict(some(rng, [*amounts.items()], 0 if chance(rng, 0.1) else 1, 2))


def _container_status(rng: Random, one: Object) -> Object:
    row: Object = {
        "name": one["name"],
        "image": "",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    if chance(rng, 0.8):
        row["resources"] = {"requests": _cpu_and_memory(rng)} if chance(rng, 0.9) else {}
    if chance(rng, 0.7):
        row["allocatedResources"] = _cpu_and_memory(rng)
    return row
