"""Inputs for what becomes of a new pod: the pod, and the ClusterColocationProfiles there are."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 2500
EXTENDED = "node.koordinator.sh/extended-resource-spec"
GPUS = (
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu-memory",
    "koordinator.sh/gpu.shared",
)
_WORDS = ("a", "b", "web", "x-s")
_PATCHES: tuple[Object, ...] = (
    {"spec": {"terminationGracePeriodSeconds": 5}},
    {"metadata": {"labels": {"colocated": None, "patched": "yes"}}},
    {"spec": {"containers": [{"name": "c0", "env": [{"name": "B", "value": "patched"}]}]}},
    {"spec": {"containers": [{"name": "extra", "image": "sidecar:1"}]}},
    {"spec": {"$setElementOrder/containers": [{"name": "c1"}, {"name": "c0"}]}},
    {"spec": {"containers": [{"name": "c1", "$patch": "delete"}]}},
    {"spec": {"tolerations": [{"key": "batch", "operator": "Exists"}]}},
    {"spec": {"volumes": [{"name": "v", "emptyDir": {}}], "affinity": {"$patch": "delete"}}},
    {"spec": {"containers": [{"name": "c0", "resources": {"limits": {"cpu": "3"}}}]}},
    {"spec": {"containers": [{"name": "c0", "ports": [{"containerPort": 80, "name": "n"}]}]}},
    {"metadata": {"annotations": {"note": "1"}}, "spec": {"hostNetwork": True}},
)


def one(random: Random) -> Object:
    """One input."""
    return {
        "pod": _pod(random),
        "namespace": random.choice(("shop", "batch", "batch", "new")),
        "number": random.choice((0, 1, 29, 30, 31, 50, 99, random.randint(0, 99))),
        "profiles": [_profile(random, name) for name in "abc"[: random.choice((0, 1, 1, 2, 3))]],
        "namespaces": {"shop": {}, "batch": {"colocated": "yes"}},
        "classes": {
            "koord-batch": {"value": 5500, "preemptionPolicy": "Never"},
            "koord-mid": {"value": 7500},
            "koord-prod": {"value": 9500},
            "koord-free": {"value": 3500},
        },
    }


def _pod(random: Random) -> Object:
    labels = _texts(random, ("app", "team", "src", "suffixed", "colocated"), 0.4)
    if random.random() < 0.2:
        labels["koordinator.sh/qosClass"] = random.choice(("BE", "LS", "LSR"))
    if random.random() < 0.2:
        labels["koordinator.sh/priority-class"] = random.choice(
            ("koord-prod", "koord-mid", "koord-batch", "koord-free", "other")
        )
    annotations = _texts(random, ("src", "note"), 0.3)
    if random.random() < 0.05:
        annotations[EXTENDED] = random.choice(("{}", "x", '{"containers":{"c0":{}}}'))
    number = random.randint(1, 3)
    spec: Object = {"containers": [_container(random, f"c{place}") for place in range(number)]}
    if random.random() < 0.25:
        init = _container(random, "i0")
        if random.random() < 0.5:
            init["restartPolicy"] = "Always"
        spec["initContainers"] = [init]
    if random.random() < 0.3:
        spec["priority"] = random.choice((0, 9500, 7500, 5500, 3500, 6500))
    if random.random() < 0.1:
        spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
    if random.random() < 0.1:
        spec["affinity"] = {"nodeAffinity": {}}
    metadata = {"name": "pod", "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _texts(random: Random, names: tuple[str, ...], chance: float) -> dict[str, str]:
    return {name: random.choice(_WORDS) for name in names if random.random() < chance}


def _container(random: Random, name: str) -> Object:
    found: Object = {"name": name, "image": "registry/image:1"}
    resources: Object = {}
    for resource, amounts in (
        ("cpu", ("1", "500m", "1500m", "0.1", "2", "0", "0.25")),
        ("memory", ("1Gi", "128Mi", "1G", "1000000", "1.5Gi", "0")),
        ("kubernetes.io/batch-cpu", ("1000", "1k")),
        ("kubernetes.io/batch-memory", ("1Gi",)),
        ("kubernetes.io/mid-cpu", ("500",)),
    ):
        for group in ("requests", "limits"):
            if random.random() < (0.5 if "/" not in resource else 0.04):
                resources.setdefault(group, {})[resource] = random.choice(amounts)
    if random.random() < 0.15:
        gpu = random.choice(GPUS)
        amount = random.choice(("50", "100", "200", "150", "400"))
        groups = random.choice((("requests", "limits"), ("requests", "limits"), ("limits",)))
        for group in groups:
            resources.setdefault(group, {})[gpu] = amount
        if random.random() < 0.2:
            for group in groups:
                resources[group]["koordinator.sh/gpu.shared"] = "2"
        if groups != ("limits",) and random.random() < 0.3:
            for group in groups:
                resources[group]["koordinator.sh/gpu-core"] = "100"
    if resources:
        found["resources"] = resources
    if random.random() < 0.2:
        found["env"] = [{"name": one, "value": "1"} for one in "AB"]
    if random.random() < 0.1:
        found["ports"] = [{"containerPort": 80, "protocol": "TCP"}]
    return found


def _profile(random: Random, name: str) -> Object:
    options: dict[str, Any] = {
        "selector": random.choice(
            (
                {"matchLabels": {"app": random.choice(_WORDS)}},
                {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
                {},
                {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["a"]}]},
            )
        ),
        "namespaceSelector": random.choice(({"matchLabels": {"colocated": "yes"}}, {})),
        "labels": _texts(random, ("colocated", "tier"), 0.6),
        "annotations": _texts(random, ("note", "tier"), 0.6),
        "labelKeysMapping": {"src": "mapped"},
        "annotationKeysMapping": {"src": "mapped"},
        "labelSuffixes": {"suffixed": "-s"},
        "schedulerName": "koord-scheduler",
        "qosClass": random.choice(("BE", "LS", "LSR", "LSE")),
        "priorityClassName": random.choice(
            ("koord-batch", "koord-batch", "koord-mid", "koord-prod", "koord-free")
        ),
        "koordinatorPriority": random.choice((0, 100, 9999, -5)),
        "patch": random.choice(_PATCHES),
    }
    spec = {key: value for key, value in options.items() if random.random() < 0.35}
    if random.random() < 0.3:
        spec["probability"] = random.choice((0, 30, 50, "30%", "50%", "100%", 100, 150, "x"))
    if random.random() < 0.02:
        spec["priorityClassName"] = "missing"
    metadata: Object = {"name": name}
    if random.random() < 0.1:
        metadata["annotations"] = {"config.koordinator.sh/skip-update-resources": "true"}
    return {"metadata": metadata, "spec": spec}


def _keep(given: Object, wanted: Callable[[Object], bool]) -> None:
    given["profiles"] = [one for one in given["profiles"] if wanted(one["spec"])]


def bad_selectors(given: Object) -> None:
    """A profile whose selector cannot be read is for nothing."""
    _keep(given, lambda spec: "Near" not in str(spec.get("selector")))


def unknown_namespaces(given: Object) -> None:
    """A profile that selects namespaces is for nothing in one that is not known."""
    if given["namespace"] not in given["namespaces"]:
        _keep(given, lambda spec: not spec.get("namespaceSelector"))


def probabilities(given: Object) -> None:
    """A profile that has no chance is as if it were not there; so is one with no probability."""
    _keep(given, lambda spec: given["number"] < _percent(spec.get("probability", 100)))


def _percent(given: int | str) -> int:
    if isinstance(given, str):
        given = int(given.removesuffix("%")) if given.endswith("%") else 0
    return given if given <= 100 else 0


def gpus_under_limits(given: Object) -> None:
    """A limit of GPUs alone is a request as well."""
    for container in given["pod"]["spec"]["containers"]:
        resources = container.get("resources", {})
        for name, amount in resources.get("limits", {}).items():
            if name in GPUS and name not in resources.get("requests", {}):
                resources.setdefault("requests", {})[name] = amount


def brought_annotation(given: Object) -> None:
    """What a pod brings as that annotation counts for nothing."""
    given["pod"]["metadata"]["annotations"].pop(EXTENDED, None)


DECISIONS: dict[str, Callable[[Object], None]] = {
    "bad selectors": bad_selectors,
    "unknown namespaces": unknown_namespaces,
    "probabilities": probabilities,
    "GPUs under limits": gpus_under_limits,
    "brought annotation": brought_annotation,
}
