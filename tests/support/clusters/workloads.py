"""Random Services and controllers, and a pod that may be one of theirs."""

from __future__ import annotations

from random import Random

from tests.support.clusters.selectors import (
    NAMESPACES,
    POD_LABELS,
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


def random_workloads(rng: Random) -> Object:
    """A ``pod``, and workloads by their plurals, mostly in its namespace; ``others`` are labels."""
    labels = pod_labels(rng)
    namespace = rng.choice([*NAMESPACES])
    metadata: Object = {"name": "pod", "namespace": namespace, "labels": labels}
    if chance(rng, 0.85):
        metadata["ownerReferences"] = owners(rng)
    found: Object = {"pod": {"metadata": metadata, "spec": {}}}
    found["services"] = [
        workload(f"s{number}", namespace_near(rng, namespace), equality_selector(rng, labels))
        for number in range(rng.choice([0, 1, 1, 2, 3]))
    ]
    for plural in CONTROLLERS:
        found[plural] = [
            workload(name, namespace_near(rng, namespace), selector_of(rng, plural, labels))
            for name in some(rng, NAMES, 0, 2)
        ]
    found["others"] = [labels, *(pod_labels(rng) for _ in range(6))]
    return found


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
