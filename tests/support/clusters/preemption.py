"""Random full clusters, in which a pod may take the place of others."""

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
    label_selector,
    some,
)

THEMES = {
    "resources": 2,
    "podAffinity": 3,
    "spread": 4,
    "ports": 2,
    "taints": 1,
    "nodeAffinity": 1,
    "unschedulable": 0.5,
}
PRIORITIES = [-10, 0, 0, 0, 5, 5, 100, 1000]
CPU = ["100m", "250m", "500m", "500m", "1", "1500m"]
MEMORY = ["64Mi", "256Mi", "1Gi", "1Gi", "1500Mi"]
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
EVICTED = [
    {**PREEMPTED, "status": "False"},
    {**PREEMPTED, "reason": "EvictionByEvictionAPI"},
    {**PREEMPTED, "type": "Ready"},
]


def random_preemption(rng: Random) -> Object:
    """A case in plain JSON: ``nodes``, bound ``pods``, ``namespaces``, and the ``pod``.

    ``nominated`` are other waiting pods with a nominated node, ``budgets`` are disruption
    budgets. The pods of a node never start at the same time: their order is Kubernetes' then.
    """
    number = rng.choice([0, 0, 1, 1, 1, 2, 3])
    themes = set(rng.choices([*THEMES], weights=[*THEMES.values()], k=number))
    names = [f"n{place}" for place in range(1, rng.choice([1, 2, 3, 4, 5, 6]) + 1)]
    same = _small(rng) if chance(rng, 0.5) else None
    pods = [
        _bound_pod(rng, place, names, themes)
        for place in range(rng.randint(len(names), rng.choice([5, 8, 11]) * len(names)))
    ]
    _set_start_times(rng, pods)
    if chance(rng, 0.2):
        pods += _copies(pods, names)
    nominated = _nominated_pods(rng, names, themes) if chance(rng, 0.3) else []
    _let_ports_be_free([*pods, *nominated])
    pod = _waiting_pod(rng, names, themes)
    if nominated and chance(rng, 0.4):
        _relate(rng, pod, nominated[0])
    return {
        "nodes": [_node(rng, name, themes, same) for name in names],
        "pods": pods,
        "namespaces": [{"name": name, "labels": labels} for name, labels in NAMESPACES.items()],
        "pod": pod,
        "nominated": nominated,
        "budgets": _budgets(rng, pods) if pods and chance(rng, 0.55) else [],
    }


def _small(rng: Random) -> Object:
    cpu, memory = rng.choice(["1", "2", "2", "3"]), rng.choice(["2Gi", "4Gi", "8Gi"])
    return {"cpu": cpu, "memory": memory, "pods": rng.choice(["2", "4", "110", "110", "110"])}


def _node(rng: Random, name: str, themes: set[str], same: Object | None) -> Object:
    amounts = same or _small(rng)
    if "resources" in themes:
        amounts = {**allocatable(rng, rich=True), **amounts}
    return node(rng, name, themes, amounts)


def _set_requests(rng: Random, pod: Object, rich: bool) -> None:
    if rich and chance(rng, 0.6):
        return
    for one in pod["spec"]["containers"]:
        amounts = {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY)}
        one["resources"] = {"requests": dict(some(rng, [*amounts.items()], 0, 2))}
    pod["spec"]["containers"] = pod["spec"]["containers"][:2]
    pod["spec"].pop("resources", None)
    pod.pop("status", None)


def _set_priority(rng: Random, pod: Object, priorities: list[int]) -> None:
    pod["spec"].pop("priority", None)
    if chance(rng, 0.93):
        pod["spec"]["priority"] = rng.choice(priorities)


def _bound_pod(rng: Random, place: int, names: list[str], themes: set[str]) -> Object:
    pod = bound_pod(rng, place, names, themes)
    if pod["spec"]["nodeName"] not in names:
        pod["spec"]["nodeName"] = names[0]
    _set_requests(rng, pod, "resources" in themes)
    _set_priority(rng, pod, PRIORITIES)
    if "spread" in themes and chance(rng, 0.7):
        pod["metadata"].pop("deletionTimestamp", None)
    if chance(rng, 0.1):
        pod["metadata"]["labels"] = {}
    if chance(rng, 0.7 if "deletionTimestamp" in pod["metadata"] else 0.05):
        condition = PREEMPTED if chance(rng, 0.6) else rng.choice(EVICTED)
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions.append(dict(condition))
    return pod


def _set_start_times(rng: Random, pods: list[Object]) -> None:
    times: dict[str, list[int]] = {}
    for pod in pods:
        name = pod["spec"]["nodeName"]
        if name not in times:
            times[name] = rng.sample(range(60), 60) if chance(rng, 0.6) else [*range(60)]
            if chance(rng, 0.3):
                continue  # one that has not started yet
        second = times[name].pop()
        pod.setdefault("status", {})["startTime"] = f"2026-01-01T00:00:{second:02}Z"


def _copies(pods: list[Object], names: list[str]) -> list[Object]:
    """The pods of the first node once more on the second one, in place of other pods."""
    if len(names) == 1:
        return []
    pods[:] = [pod for pod in pods if pod["spec"]["nodeName"] != names[1]]
    first = [pod for pod in pods if pod["spec"]["nodeName"] == names[0]]
    return [
        {
            **pod,
            "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-copy"},
            "spec": {**pod["spec"], "nodeName": names[1]},
        }
        for pod in first
    ]


def _nominated_pods(rng: Random, names: list[str], themes: set[str]) -> list[Object]:
    pods = []
    for place in range(rng.choice([1, 1, 2, 3])):
        pod = bound_pod(rng, place, names, themes)
        _set_requests(rng, pod, "resources" in themes)
        _set_priority(rng, pod, [0, 100, 1000, 1000, 2000])
        pod["metadata"]["name"] = f"nominated{place}"
        pod["metadata"].pop("deletionTimestamp", None)
        del pod["spec"]["nodeName"]
        pod["status"] = {"nominatedNodeName": rng.choice(names)}
        pods.append(pod)
    return pods


def _waiting_pod(rng: Random, names: list[str], themes: set[str]) -> Object:
    pod = pending_pod(rng, names, themes)
    _set_requests(rng, pod, "resources" in themes)
    if chance(rng, 0.7):
        pod["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": rng.choice(["500m", "1", "2"]), "memory": rng.choice(MEMORY)}
        }
    _set_priority(rng, pod, [0, 5, 100, 100, 1000, 1000, 1000])
    if chance(rng, 0.04):
        pod["spec"]["preemptionPolicy"] = "Never"
    elif chance(rng, 0.3):
        pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority"
    if chance(rng, 0.25):
        pod["status"] = {"nominatedNodeName": rng.choice([*names, "gone"])}
    return pod


def _relate(rng: Random, pod: Object, nominated: Object) -> None:
    """Let a nominated pod keep the waiting one off, draw it, or count for its constraints."""
    labels = pod["metadata"]["labels"]
    selector = {"matchLabels": dict(some(rng, [*labels.items()], 1, 1))}
    key = rng.choice([HOSTNAME, ZONE])
    term = {"topologyKey": key, "labelSelector": selector, "namespaceSelector": {}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    kind = rng.random()
    if kind < 0.4:
        nominated["spec"]["affinity"] = {"podAntiAffinity": terms}
        return
    nominated["metadata"].update(namespace=pod["metadata"]["namespace"], labels=dict(labels))
    if kind < 0.6:
        pod["spec"]["affinity"] = {"podAffinity": terms}
    for row in pod["spec"].get("topologySpreadConstraints", []):
        if chance(rng, 0.3):
            row["labelSelector"] = {}
            row.pop("matchLabelKeys", None)


def _ports(pod: Object) -> set[tuple[object, ...]]:
    both = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    return {
        (one["hostPort"], one.get("protocol"), one.get("hostIP") or "0.0.0.0")
        for container in both
        for one in container.get("ports", ())
        if "hostPort" in one
    }


def _let_ports_be_free(pods: list[Object]) -> None:
    """No two pods of a node have the same port: kube-scheduler keeps them as a set."""
    taken: dict[str, set[tuple[object, ...]]] = {}
    for pod in pods:
        name = pod["spec"].get("nodeName") or pod["status"]["nominatedNodeName"]
        used = taken.setdefault(name, set())
        if used & _ports(pod):
            for one in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
                one.pop("ports", None)
        used |= _ports(pod)


def _budgets(rng: Random, pods: list[Object]) -> list[Object]:
    number = rng.choice([1, 1, 2, 4])
    return [_budget(rng, place, rng.choice(pods), pods) for place in range(number)]


def _budget(rng: Random, place: int, like: Object, pods: list[Object]) -> Object:
    namespace = like["metadata"]["namespace"]
    spec: Object = {}
    selector = label_selector(rng, like=like["metadata"]["labels"])
    if selector is not None:
        spec["selector"] = selector
    status: Object = {"disruptionsAllowed": rng.choice([0, 0, 1, 2])}
    if chance(rng, 0.25):
        there = [one["metadata"]["name"] for one in pods]
        status["disruptedPods"] = dict.fromkeys(some(rng, there, 1, 3), "2026-01-01T00:00:00Z")
    metadata = {"name": f"b{place}", "namespace": namespace}
    return {"metadata": metadata, "spec": spec, "status": status}
