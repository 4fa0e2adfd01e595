"""Random nodes with reservations, pods that have some of them, and a pod that may use some."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.support.clusters.selectors import chance

Object = dict[str, Any]
S = "scheduling.koordinator.sh/"
CARD = "example.com/card"
NOW = "2026-07-01T12:00:00Z"
TIMES = ["2026-07-01T10:00:00Z", "2026-07-01T11:30:00Z", "2026-07-01T11:59:50Z"]
LATER = "2026-07-01T13:00:00Z"


def random_reservation_node(rng: Random) -> Object:
    """A Node, Reservations there, pods, and a pod; ``Now``, and how long ended ones are kept."""
    reservations = [_reservation(rng, f"r{one}") for one in range(rng.choice([0, 1, 1, 2, 2, 3]))]
    amounts: Object = {"cpu": str(rng.choice([8, 12, 16])), "memory": "16Gi"}
    amounts |= {"pods": str(rng.choice([3, 6, 110, 110])), CARD: "4"}
    labels = {"zone": rng.choice(["a", "b"])}
    return {
        "Node": {
            "metadata": {"name": "n", "labels": labels},
            "status": {"allocatable": amounts},
        },
        "Reservations": reservations,
        "Placed": [
            _placed(rng, f"p{one}", reservations) for one in range(rng.choice([0, 1, 2, 3]))
        ],
        "Pod": _pod(rng, reservations),
        "Now": NOW,
        "GCSeconds": 3600,
    }


def random_reservation_life(rng: Random) -> Object:
    """A Reservation in any phase; ``Now``, and how long ended ones are kept."""
    one = _reservation(rng, "r")
    if chance(rng, 0.3):
        one["status"] = {"phase": rng.choice(["", "Pending"])}
        if chance(rng, 0.4):
            one["status"]["conditions"] = [_condition(rng, "Scheduled", "False", "Unschedulable")]
    return {"Reservations": [one], "Now": NOW, "GCSeconds": rng.choice([600, 3600])}


def _amounts(rng: Random) -> Object:
    found: Object = {"cpu": rng.choice(["1", "2", "4", "500m"])}
    if chance(rng, 0.6):
        found["memory"] = rng.choice(["1Gi", "2Gi", "4Gi"])
    if chance(rng, 0.3):
        found[CARD] = rng.choice(["1", "2"])
    if chance(rng, 0.05):
        found.pop("cpu")
    return found


def _template(requests: Object) -> Object:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}


def _reservation(rng: Random, name: str) -> Object:
    phase = rng.choice(["Available"] * 9 + ["Waiting", "Succeeded", "Failed"])
    requests = _amounts(rng)
    allocatable = dict(requests)
    if chance(rng, 0.1):
        allocatable["pods"] = str(rng.choice([1, 2]))
    metadata: Object = {"name": name, "uid": f"u-{name}", "creationTimestamp": rng.choice(TIMES)}
    metadata["labels"] = {"pool": rng.choice(["x", "y"])} if chance(rng, 0.6) else {}
    if chance(rng, 0.2):
        metadata["labels"][f"{S}reservation-order"] = rng.choice(["1", "2", "0", "x"])
    if chance(rng, 0.04):
        metadata["deletionTimestamp"] = TIMES[0]
    spec: Object = {"template": _template(requests), "owners": _owners(rng)}
    spec |= rng.choice(
        [{}, {"allocateOnce": True}, {"allocateOnce": False}, {"allocateOnce": False}]
    )
    policy = rng.choice(["", "Aligned", "Restricted", "Restricted"])
    if policy:
        spec["allocatePolicy"] = policy
    if policy == "Restricted" and chance(rng, 0.3):
        options = {"resources": rng.sample(["cpu", "memory", CARD], rng.choice([1, 2]))}
        metadata["annotations"] = {f"{S}reservation-restricted-options": json.dumps(options)}
    if chance(rng, 0.1):
        spec["unschedulable"] = True
    if chance(rng, 0.2):
        effect = rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        spec["taints"] = [{"key": "t", "value": rng.choice(["1", "2"]), "effect": effect}]
    spec |= rng.choice([{}, {"ttl": "0s"}, {"ttl": "1h"}, {"ttl": "24h"}])
    if chance(rng, 0.3):
        spec["expires"] = rng.choice([TIMES[2], LATER])
    status: Object = {"phase": phase, "nodeName": "n", "allocatable": allocatable}
    status["conditions"] = _conditions(rng, phase)
    return {"metadata": metadata, "spec": spec, "status": status}


def _conditions(rng: Random, phase: str) -> list[Object]:
    scheduled = _condition(rng, "Scheduled", "True", "Scheduled")
    reason = {"Succeeded": "Succeeded", "Failed": "Expired"}.get(phase, "Available")
    ready = _condition(rng, "Ready", "True" if phase == "Available" else "False", reason)
    return [scheduled, ready] if chance(rng, 0.9) else [scheduled]


def _condition(rng: Random, kind: str, status: str, reason: str) -> Object:
    changed, seen = sorted([rng.choice(TIMES), rng.choice(TIMES)])
    times = {"lastProbeTime": seen, "lastTransitionTime": changed}
    return {"type": kind, "status": status, "reason": reason, **times}


def _owners(rng: Random) -> list[Object]:
    return [_owner(rng) for _ in range(rng.choice([1, 1, 1, 1, 2, 0]))]


def _owner(rng: Random) -> Object:
    found: Object = {}
    if chance(rng, 0.75):
        found["labelSelector"] = rng.choice(
            [
                {"matchLabels": {"app": "web"}},
                {"matchLabels": {"app": "web"}},
                {"matchLabels": {"app": "db"}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
                {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
                {},
            ]
        )
    if chance(rng, 0.2):
        found["controller"] = rng.choice(
            [
                {"kind": "ReplicaSet", "name": "web-1"},
                {"namespace": "shop", "controller": True},
                {"uid": "u-rs"},
                {"namespace": "other"},
                {"apiVersion": "apps/v1", "kind": "StatefulSet"},
            ]
        )
    if chance(rng, 0.15):
        found["object"] = rng.choice(
            [
                {"name": "p", "namespace": "shop"},
                {"name": "other"},
                {"uid": "uid-p"},
                {"namespace": "shop"},
            ]
        )
    return found


def _placed(rng: Random, name: str, reservations: list[Object]) -> Object:
    metadata: Object = {"name": name, "namespace": "shop", "uid": f"u-{name}"}
    requests = {"cpu": rng.choice(["500m", "1", "2"]), "memory": rng.choice(["512Mi", "1Gi"])}
    if reservations and chance(rng, 0.6):
        reservation = rng.choice(reservations)["metadata"]
        written = {"name": reservation["name"], "uid": reservation["uid"]}
        metadata["annotations"] = {f"{S}reservation-allocated": json.dumps(written)}
        requests = {"cpu": rng.choice(["250m", "500m"]), "memory": rng.choice(["256Mi", "1Gi"])}
    spec = {**_template(requests)["spec"], "nodeName": "n"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def _pod(rng: Random, reservations: list[Object]) -> Object:
    metadata: Object = {"name": "p", "namespace": "shop", "uid": "uid-p"}
    metadata["labels"] = {"app": rng.choice(["web", "web", "web", "db", "etl"])}
    if chance(rng, 0.05):
        metadata["labels"][f"{S}reservation-ignored"] = "true"
    if chance(rng, 0.5):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u-rs"}
        metadata["ownerReferences"] = [{**owner, "controller": True} if chance(rng, 0.8) else owner]
    annotations: Object = {}
    if chance(rng, 0.35):
        annotations[f"{S}reservation-affinity"] = json.dumps(_affinity(rng))
    if chance(rng, 0.12):
        names = rng.sample(["cpu", "memory", CARD], rng.choice([1, 2]))
        annotations[f"{S}exact-match-reservation"] = json.dumps({"resourceNames": names})
    requests = _amounts(rng)
    if reservations and chance(rng, 0.3):
        container = rng.choice(reservations)["spec"]["template"]["spec"]["containers"][0]
        requests = dict(container["resources"]["requests"])
    if chance(rng, 0.1):
        requests["cpu"] = "9"
    metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": _template(requests)["spec"]}


def _affinity(rng: Random) -> Object:
    found: Object = {}
    if chance(rng, 0.3):
        found["name"] = rng.choice(["r0", "r1", "r9"])
    if chance(rng, 0.4):
        found["reservationSelector"] = rng.choice([{"pool": "x"}, {"zone": "a"}, {"pool": "z"}])
    if chance(rng, 0.3):
        expressions = [
            {"key": "pool", "operator": "In", "values": ["x", "y"]},
            {"key": "zone", "operator": "NotIn", "values": ["a"]},
            {"key": "pool", "operator": "Exists"},
        ]
        term: Object = {"matchExpressions": [rng.choice(expressions)]}
        if chance(rng, 0.2):
            name = {"key": "metadata.name", "operator": "In", "values": ["r0"]}
            term = {"matchFields": [name]}
        required = {"reservationSelectorTerms": [term] if chance(rng, 0.9) else []}
        found["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if chance(rng, 0.5):
        tolerations = [
            {"key": "t", "operator": "Exists"},
            {"key": "t", "value": "1", "effect": "NoSchedule"},
            {"operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        ]
        found["tolerations"] = rng.sample(tolerations, rng.choice([1, 2]))
    return found
