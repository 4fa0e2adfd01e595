"""Random clusters: nodes, bound pods, and a pod to schedule."""

from __future__ import annotations

from random import Random

from tests.support.clusters.nodes import allocatable, node
from tests.support.clusters.pods import bound_pod, pending_pod
from tests.support.clusters.selectors import (
    HOSTNAME,
    NAMESPACES,
    ZONE,
    Object,
    chance,
    node_affinity,
    pod_labels,
    some,
)
from tests.support.clusters.volumes import add_volumes

THEMES = {
    "resources": 5,
    "taints": 5,
    "nodeAffinity": 5,
    "podAffinity": 8,
    "spread": 9,
    "ports": 3,
    "images": 3,
    "unschedulable": 1,
    "features": 1,
    "volumes": 2,
    "services": 1,
    "nodeName": 0.4,
}
"""What a cluster is about, and how often: few themes each, so that pods often fit somewhere."""


def _themes(rng: Random) -> set[str]:
    if chance(rng, 0.04):
        return set(THEMES) - {"nodeName"}
    number = rng.choice([1, 2, 2, 2, 3, 3])
    themes = set(rng.choices([*THEMES], weights=[*THEMES.values()], k=number))
    if "spread" in themes and chance(rng, 0.5):
        themes.add(rng.choice(["nodeAffinity", "taints"]))
    return themes


def random_cluster(rng: Random) -> Object:
    """A case in plain JSON: ``nodes``, bound ``pods``, ``namespaces``, and the ``pod``.

    Where the case is about them it also has ``services``, ``pvcs``, ``pvs``, ``storageClasses``
    and ``csiNodes``, and as ``args`` the arguments of plugins that differ from the defaults.
    """
    themes = _themes(rng)
    args = _plugins(rng) if chance(rng, 0.15) else []
    themes |= {theme for plugin, theme in ARGS_THEMES.items() if plugin in args}
    if "services" in themes and chance(rng, 0.9):
        themes.discard("spread")
    names = [f"n{number}" for number in range(1, rng.choice([1, 2, 3, 4, 4, 5, 5, 6, 7, 8]) + 1)]
    same = allocatable(rng, "resources" in themes) if chance(rng, 0.4) else None
    few = 5 if themes & {"spread", "podAffinity"} else 0
    cluster: Object = {
        "nodes": [node(rng, name, themes, same) for name in names],
        "pods": [bound_pod(rng, number, names, themes) for number in range(rng.randint(few, 14))],
        "namespaces": [{"name": name, "labels": labels} for name, labels in NAMESPACES.items()],
        "pod": pending_pod(rng, names, themes),
    }
    if "services" in themes:
        number = rng.choice([1, 1, 2])
        cluster["services"] = [_service(rng, place, cluster["pod"]) for place in range(number)]
    if "volumes" in themes:
        add_volumes(rng, cluster)
    if args:
        cluster["args"] = {plugin: ARGS[plugin](rng, names) for plugin in args}
    return cluster


def _service(rng: Random, number: int, pod: Object) -> Object:
    """What the default spread constraints take their selector from; mostly one of the pod."""
    labels = pod["metadata"]["labels"] if chance(rng, 0.8) else pod_labels(rng)
    selector = dict(some(rng, [*labels.items()], 1, 1 if chance(rng, 0.7) else 2))
    namespace = pod["metadata"]["namespace"] if chance(rng, 0.85) else "test"
    metadata = {"name": f"s{number}", "namespace": namespace}
    return {"metadata": metadata, "spec": {"selector": selector} if selector else {}}


def _plugins(rng: Random) -> list[str]:
    """One or two plugins that get arguments of their own."""
    return some(rng, [*ARGS], 1, 2)


def _weighted_resources(rng: Random) -> list[Object]:
    names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "kubernetes.io/batch-cpu"]
    return [{"name": name, "weight": rng.choice([1, 2, 5])} for name in some(rng, names, 1, 4)]


def _fit_args(rng: Random, node_names: list[str]) -> Object:
    kind = rng.choice(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
    strategy: Object = {"type": kind, "resources": _weighted_resources(rng)}
    if kind == "RequestedToCapacityRatio":
        points = sorted(rng.sample(range(101), rng.choice([2, 3, 4])))
        shape = [{"utilization": point, "score": rng.randint(0, 10)} for point in points]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    args: Object = {"scoringStrategy": strategy}
    if chance(rng, 0.3):
        args["ignoredResources"] = ["example.com/gpu"]
    if chance(rng, 0.2):
        args["ignoredResourceGroups"] = ["example.com"]
    return args


def _balanced_args(rng: Random, node_names: list[str]) -> Object:
    return {"resources": [{**one, "weight": 1} for one in _weighted_resources(rng)]}


def _spread_args(rng: Random, node_names: list[str]) -> Object:
    if chance(rng, 0.2):
        return {"defaultingType": "System"}
    rows = [
        {"topologyKey": key, "maxSkew": rng.choice([1, 2]), "whenUnsatisfiable": action}
        for key, action in ((ZONE, "ScheduleAnyway"), (HOSTNAME, "DoNotSchedule"))
    ]
    return {"defaultingType": "List", "defaultConstraints": some(rng, rows, 0, 2)}


def _inter_pod_args(rng: Random, node_names: list[str]) -> Object:
    return {
        "hardPodAffinityWeight": rng.choice([0, 1, 50, 100]),
        "ignorePreferredTermsOfExistingPods": chance(rng, 0.5),
    }


def _node_affinity_args(rng: Random, node_names: list[str]) -> Object:
    return {"addedAffinity": node_affinity(rng, node_names)}


ARGS = {
    "NodeResourcesFit": _fit_args,
    "NodeResourcesBalancedAllocation": _balanced_args,
    "PodTopologySpread": _spread_args,
    "InterPodAffinity": _inter_pod_args,
    "NodeAffinity": _node_affinity_args,
}
ARGS_THEMES = {
    "NodeResourcesFit": "resources",
    "NodeResourcesBalancedAllocation": "resources",
    "PodTopologySpread": "services",
    "InterPodAffinity": "podAffinity",
}
"""What a cluster is about if these plugins have arguments, for them to matter."""
