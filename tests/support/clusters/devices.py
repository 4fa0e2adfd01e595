"""Random clusters with devices, ResourceClaims that ask for them, and pods with such claims."""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]

DRIVERS = ["gpu.example.com", "net.example.com"]
PREFIX = dict(zip(DRIVERS, ["z", "a"], strict=True))
"""Of names of pools: another order than that of drivers."""
NODES = ["n1", "n2", "n3"]
MODELS = ["a100", "h100"]


def chance(rng: Random, probability: float) -> bool:
    return rng.random() < probability


def random_device_cluster(rng: Random) -> Object:
    """Nodes, devices, classes, claims with devices and without, and two pods in turn."""
    nodes = [_node(rng, name) for name in NODES[: rng.choice([1, 2, 3, 3])]]
    drivers = DRIVERS[: rng.choice([1, 1, 2])]
    slices = [one for driver in drivers for one in _slices(rng, driver)]
    classes = [_class(rng, name, drivers) for name in ("any", "big", "odd")]
    if chance(rng, 0.03):
        classes.pop()
    claims = [_claim(rng, f"c{place}") for place in range(5)]
    _allocate_some(rng, claims[:2], slices)
    own = _claim(rng, "p-own")
    own["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": "other" if chance(rng, 0.1) else "uid-p",
            "controller": True,
        }
    ]
    there = [one for one in [*claims, own] if not chance(rng, 0.02)]
    names = [f"c{place}" for place in range(5)]
    used = rng.sample(names[1:], rng.choice([1, 1, 1, 1, 2, 3]))
    again = rng.sample(names, rng.choice([1, 1, 2]))
    return {
        "nodes": nodes,
        "slices": slices,
        "classes": classes,
        "claims": there,
        "pod": _pod(rng, "p", used, has_own=chance(rng, 0.3)),
        "next": _pod(rng, "q", again, has_own=False),
    }


def _node(rng: Random, name: str) -> Object:
    labels = {"zone": rng.choice(["a", "b"]), "kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}}


def _pod(rng: Random, name: str, claims: list[str], *, has_own: bool) -> Object:
    given: list[Object] = [{"name": one, "resourceClaimName": one} for one in claims]
    statuses = []
    if has_own:
        given.insert(rng.randrange(2), {"name": "own", "resourceClaimTemplateName": "t"})
        made = rng.choice(["p-own"] * 8 + [None, ""])
        if made is None:
            statuses.append({"name": "own"})
        elif made:
            statuses.append({"name": "own", "resourceClaimName": made})
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": given},
        "status": {"resourceClaimStatuses": statuses} if statuses else {},
    }


# ---- slices


def _slices(rng: Random, driver: str) -> list[Object]:
    kind = rng.choice(["node", "node", "node", "zone", "all", "device", "partitions", "partitions"])
    if kind in ("node", "partitions"):
        found = []
        for place, node in enumerate(NODES):
            if not chance(rng, 0.15):
                make = _partitions if kind == "partitions" else _pool
                found += make(rng, driver, f"{PREFIX[driver]}-{node}", {"nodeName": node}, place)
        return found
    if kind == "zone":
        term = {"key": "zone", "operator": "In", "values": [rng.choice(["a", "b"])]}
        terms = [{"matchExpressions": [term]}]
        return _pool(
            rng, driver, f"{PREFIX[driver]}-zone", {"nodeSelector": {"nodeSelectorTerms": terms}}
        )
    where = {"perDeviceNodeSelection": True} if kind == "device" else {"allNodes": True}
    return _pool(rng, driver, f"{PREFIX[driver]}-all", where)


def _pool(rng: Random, driver: str, name: str, where: Object, place: int = 0) -> list[Object]:
    """One or two slices; now and then one is missing, old, or has a name again."""
    number = rng.choice([1, 1, 2])
    found = []
    for piece in range(number):
        devices = [
            _device(rng, f"d{piece}{at}", per_device="perDeviceNodeSelection" in where)
            for at in range(rng.choice([0, 2, 3, 4, 5]))
        ]
        spec = {
            "driver": driver,
            "pool": {"name": name, "generation": 2, "resourceSliceCount": number},
            "devices": devices,
            **where,
        }
        found.append(_slice(f"{name}-{rng.randrange(100)}-{piece}", spec))
    problem = rng.choice([""] * 20 + ["missing", "old", "twice"])
    spec = found[0]["spec"]
    if problem == "missing":
        for one in found:
            one["spec"]["pool"]["resourceSliceCount"] = 3
    elif problem == "old":
        spec["pool"]["generation"] = 1
    elif problem == "twice" and number == 2 and spec["devices"] and found[1]["spec"]["devices"]:
        found[1]["spec"]["devices"][0]["name"] = spec["devices"][0]["name"]
    return found


def _partitions(rng: Random, driver: str, name: str, where: Object, place: int) -> list[Object]:
    """A card that can be given away whole or in parts."""
    counters = {"memory": {"value": "40Gi"}, "slots": {"value": str(rng.choice([2, 3, 4]))}}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
    devices = []
    for at in range(rng.randrange(2, 6)):
        one = _device(rng, f"p{at}", per_device=False)
        one.pop("taints", None)
        part = {
            "memory": {"value": rng.choice(["10Gi", "20Gi", "40Gi"])},
            "slots": {"value": rng.choice(["1", "1", "2"])},
        }
        if chance(rng, 0.3):
            part.pop("slots")
        set_name = "other" if chance(rng, 0.03) else "card"
        one["consumesCounters"] = [{"counterSet": set_name, "counters": part}]
        devices.append(one)
    shared = {"sharedCounters": [{"name": "card", "counters": counters}]}
    common = {"driver": driver, "pool": pool, **where}
    return [
        _slice(f"{name}-counters", {**common, **shared}),
        _slice(f"{name}-devices", {**common, "devices": devices}),
    ]


def _slice(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name}, "spec": spec}


def _device(rng: Random, name: str, *, per_device: bool) -> Object:
    model = rng.choice(MODELS)
    attributes: Object = {
        "model": {"string": model},
        "numa": {"int": rng.randrange(2)},
        "version": {"version": rng.choice(["1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0"])},
        "example.com/rack": {"string": rng.choice(["r1", "r2"])},
    }
    if chance(rng, 0.5):
        attributes["fast"] = {"bool": chance(rng, 0.5)}
    if chance(rng, 0.1):
        del attributes["numa"]
    memory: Object = {"value": rng.choice(["40Gi", "80Gi"])}
    found: Object = {"name": name, "attributes": attributes, "capacity": {"memory": memory}}
    if chance(rng, 0.25):
        found["allowMultipleAllocations"] = True
        if chance(rng, 0.7):
            memory["requestPolicy"] = rng.choice(
                [
                    {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "60Gi"}},
                    {"default": "20Gi", "validValues": ["10Gi", "20Gi", "40Gi"]},
                    {"default": "30Gi"},
                ]
            )
    if chance(rng, 0.1):
        effect = rng.choice(["NoSchedule", "NoExecute", "None"])
        found["taints"] = [{"key": "bad", "value": "x", "effect": effect}]
    if per_device:
        found |= rng.choice([{"nodeName": rng.choice(NODES)}, {"allNodes": True}])
    if chance(rng, 0.05):
        found["bindingConditions"] = ["ready"]
        found["bindingFailureConditions"] = ["failed"]
    if chance(rng, 0.05):
        found["bindsToNode"] = True
    return found


# ---- classes and claims


def _class(rng: Random, name: str, drivers: list[str]) -> Object:
    expression = {
        "any": f'device.driver == "{rng.choice(drivers)}"' if chance(rng, 0.3) else "true",
        "big": 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0',
        "odd": 'device.attributes["gpu.example.com"].?fast.orValue(true)',
    }[name]
    if name == "big":
        expression = f'device.driver == "gpu.example.com" && {expression}'
    spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
    if chance(rng, 0.3):
        spec["config"] = [_opaque(name)]
    return {"metadata": {"name": name}, "spec": spec}


def _opaque(what: str) -> Object:
    return {"opaque": {"driver": DRIVERS[0], "parameters": {"kind": "Config", "of": what}}}


SELECTORS = [
    'device.attributes["gpu.example.com"].model == "a100"',
    '"numa" in device.attributes["gpu.example.com"]',
    'device.attributes["gpu.example.com"].version.isLessThan(semver("1.10.0"))',
    'device.attributes["gpu.example.com"].version.major() == 2',
    'cel.bind(d, device.attributes["gpu.example.com"], d.model == "h100" && d.numa == 1)',
    'device.attributes["example.com"].rack == "r1"',
    'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))',
    'device.attributes["gpu.example.com"].model.startsWith("h")',
    'device.attributes["gpu.example.com"].model in ["a100", "b200"]',
    "!device.allowMultipleAllocations",
    'device.driver.endsWith("example.com")',
    'has(device.attributes["gpu.example.com"].fast)',
    'device.attributes["nobody.example.com"].?x.orValue("") == ""',
]


def _request(rng: Random, *, is_alternative: bool) -> Object:
    found: Object = {
        "deviceClassName": rng.choice(["any", "any", "any", "any", "big", "odd"]),
        "allocationMode": "ExactCount",
        "count": rng.choice([1, 1, 1, 1, 2, 2, 3]),
    }
    if chance(rng, 0.12):
        found["allocationMode"] = "All"
        del found["count"]
    if chance(rng, 0.35):
        found["selectors"] = [
            {"cel": {"expression": one}} for one in rng.sample(SELECTORS, rng.choice([1, 1, 2]))
        ]
    if not is_alternative and chance(rng, 0.08):
        found["adminAccess"] = True
    if chance(rng, 0.15):
        found["tolerations"] = [
            rng.choice(
                [
                    {"key": "bad", "operator": "Exists"},
                    {"key": "bad", "operator": "Equal", "value": rng.choice(["x", "y"])},
                    {"operator": "Exists", "effect": "NoSchedule"},
                ]
            )
        ]
    if chance(rng, 0.2):
        asked = rng.choice(["3Gi", "7Gi", "12Gi", "20Gi", "41Gi", "70Gi"])
        name = "other" if chance(rng, 0.05) else "memory"
        found["capacity"] = {"requests": {name: asked}}
    return found


def _claim(rng: Random, name: str) -> Object:
    requests = []
    for place in range(rng.choice([1, 1, 1, 1, 2, 2, 3])):
        if chance(rng, 0.25):
            alternatives = [
                {"name": f"s{at}", **_request(rng, is_alternative=True)}
                for at in range(rng.choice([1, 2, 3]))
            ]
            requests.append({"name": f"r{place}", "firstAvailable": alternatives})
        else:
            requests.append({"name": f"r{place}", "exactly": _request(rng, is_alternative=False)})
    names = [one["name"] for one in requests]
    devices: Object = {"requests": requests}
    if chance(rng, 0.3):
        devices["constraints"] = [_constraint(rng, requests)]
    if chance(rng, 0.2):
        of = rng.choice([[], names[:1], [f"{names[-1]}/s0"], names])
        devices["config"] = [{**_opaque(name), **({"requests": of} if of else {})}]
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    metadata["resourceVersion"] = "7"
    if chance(rng, 0.02):
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    return {"metadata": metadata, "spec": {"devices": devices}}


def _constraint(rng: Random, requests: list[Object]) -> Object:
    """Distinct values only of requests for one device each: see ``test_scheduler_devices``."""
    name = rng.choice(["gpu.example.com/model", "gpu.example.com/numa", "example.com/rack"])
    names = [one["name"] for one in requests]
    if chance(rng, 0.6):
        return {"matchAttribute": name, **({"requests": names[:2]} if chance(rng, 0.5) else {})}
    singles = [one["name"] for one in requests if one.get("exactly", {}).get("count") == 1]
    return {"distinctAttribute": name, "requests": singles} if singles else {"matchAttribute": name}


def _allocate_some(rng: Random, claims: list[Object], slices: list[Object]) -> None:
    """Some claims have devices already."""
    there = [(one["spec"], device) for one in slices for device in one["spec"].get("devices", ())]
    for claim in claims:
        if not there or chance(rng, 0.4):
            continue
        results = []
        for spec, device in rng.sample(there, min(len(there), rng.choice([1, 1, 2, 3]))):
            one = {
                "request": "r0",
                "driver": spec["driver"],
                "pool": spec["pool"]["name"],
                "device": device["name"],
            }
            if device.get("allowMultipleAllocations"):
                one["shareID"] = f"00000000-0000-0000-0000-{len(results):012d}"
                one["consumedCapacity"] = {"memory": rng.choice(["10Gi", "20Gi", "40Gi"])}
            elif chance(rng, 0.1):
                one["adminAccess"] = True
            results.append(one)
        allocation: Object = {"devices": {"results": results}}
        if chance(rng, 0.6):
            field = {"key": "metadata.name", "operator": "In", "values": [rng.choice(NODES)]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        claim["status"] = {"allocation": allocation}
        if chance(rng, 0.5):
            consumer = {"resource": "pods", "name": "x", "uid": "uid-x"}
            claim["status"]["reservedFor"] = [consumer]
