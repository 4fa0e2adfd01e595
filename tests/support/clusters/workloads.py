"""Random Services and controllers, and a pod that may be one of theirs."""

from __future__ import annotations

from random import Random

from tests.support.clusters.pods import DELETED
from tests.support.clusters.selectors import (
    HOSTNAME,
    NAMESPACES,
    POD_LABELS,
    ZONE,
    Object,
    chance,
    label_selector,
    pod_labels,
    some,
)

CONTROLLERS = {
    "replicationControllers": ("v1", "ReplicationController"),
    "replicaSets": ("apps/v1", "ReplicaSet"),
    "statefulSets": ("apps/v1", "StatefulSet"),
}
OTHERS = [("batch/v1", "Job"), ("apps/v1", "DaemonSet"), ("example.com/v1", "ReplicaSet")]
NAMES = ["w1", "w2"]
ACTIONS = ["DoNotSchedule", "ScheduleAnyway"]


def random_workloads(rng: Random) -> Object:
    """A ``pod`` without constraints, and workloads by their plurals, mostly in its namespace.

    ``nodes`` and ``pods`` have what matters to PodTopologySpread, ``args`` are its arguments.
    """
    labels = pod_labels(rng)
    namespace = rng.choice([*NAMESPACES])
    metadata: Object = {"name": "pod", "namespace": namespace, "labels": labels}
    pod: Object = {"metadata": metadata, "spec": {}}
    if chance(rng, 0.85):
        metadata["ownerReferences"] = owners(rng)
    if chance(rng, 0.15):
        pod["spec"]["nodeSelector"] = {"disk": "ssd"}
    found: Object = {"pod": pod, **_nodes_and_pods(rng, namespace), "args": _args(rng)}
    found["services"] = [
        workload(f"s{number}", namespace_near(rng, namespace), equality_selector(rng, labels))
        for number in range(rng.choice([0, 1, 1, 2, 3]))
    ]
    for plural in CONTROLLERS:
        found[plural] = [
            workload(name, namespace_near(rng, namespace), selector_of(rng, plural, labels))
            for name in some(rng, NAMES, 0, 2)
        ]
    return found


def _nodes_and_pods(rng: Random, namespace: str) -> Object:
    """Nodes that may lack labels, or have empty ones."""
    names = [f"n{number}" for number in range(rng.choice([1, 2, 4, 5, 6]))]
    nodes = []
    for name in names:
        labels = {HOSTNAME: (0.9, [name]), ZONE: (0.75, ["z1", "z2", ""]), "disk": (0.7, ["ssd"])}
        chosen = {
            key: rng.choice(one) for key, (weight, one) in labels.items() if chance(rng, weight)
        }
        nodes.append({"metadata": {"name": name, "labels": chosen}})
    pods = []
    for number in range(rng.randint(0, 14)):
        metadata = {"name": f"p{number}", "namespace": namespace_near(rng, namespace)}
        leaving = {"deletionTimestamp": DELETED} if chance(rng, 0.1) else {}
        metadata = {**metadata, "labels": pod_labels(rng), **leaving}
        pods.append({"metadata": metadata, "spec": {"nodeName": rng.choice(names)}})
    return {"nodes": nodes, "pods": pods}


def _args(rng: Random) -> Object:
    if chance(rng, 0.55):
        return {"defaultingType": "System"}
    keys = [(key, action) for key in (ZONE, HOSTNAME, "disk") for action in ACTIONS]
    rows = []
    for key, action in some(rng, keys, 0, 2):
        row = {"topologyKey": key, "maxSkew": rng.choice([1, 1, 2]), "whenUnsatisfiable": action}
        if chance(rng, 0.2):
            row["matchLabelKeys"] = ["app"]
        if action == ACTIONS[0] and chance(rng, 0.3):
            row["minDomains"] = rng.choice([2, 3])
        rows.append(row)
    return {"defaultingType": "List", "defaultConstraints": rows}


def owned(rng: Random, pod: Object) -> Object:
    """The pod, mostly with owners."""
    if chance(rng, 0.3):
        return pod
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": owners(rng)}}


def owners(rng: Random) -> list[Object]:
    """One or two owners, of which at most one is the controller."""
    rows: list[Object] = []
    for number in range(rng.choice([1, 1, 1, 2])):
        version, kind = rng.choice([*CONTROLLERS.values(), *CONTROLLERS.values(), *OTHERS])
        row: Object = {"apiVersion": version, "kind": kind, "name": rng.choice(NAMES), "uid": "u"}
        if not any("controller" in one for one in rows) and chance(rng, 0.5 + 0.4 * (not number)):
            row["controller"] = True
        rows.append(row)
    return rows


def workload(name: str, namespace: str, selector: Object | None) -> Object:
    spec = {} if selector is None else {"selector": selector}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def selector_of(rng: Random, plural: str, labels: dict[str, str]) -> Object | None:
    if plural in {"services", "replicationControllers"}:
        return equality_selector(rng, labels)
    return label_selector(rng, like=labels if chance(rng, 0.7) else None)


def equality_selector(rng: Random, labels: dict[str, str]) -> Object | None:
    """None, an empty one, some of the labels, or others."""
    kind = rng.random()
    if kind < 0.06:
        return None if kind < 0.03 else {}
    if kind < 0.8 and labels:
        return dict(some(rng, [*labels.items()], 1, 2))
    keys = some(rng, [*POD_LABELS], 1, 2)
    return {key: rng.choice(POD_LABELS[key]) for key in keys}


def namespace_near(rng: Random, namespace: str) -> str:
    return namespace if chance(rng, 0.9) else rng.choice([*NAMESPACES])
