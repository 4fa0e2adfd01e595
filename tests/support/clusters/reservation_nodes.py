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


def random_pre_allocation(rng: Random) -> Object:
    """A node with pods, and a new Reservation that may take some of them over."""
    given = random_reservation_node(rng)
    del given["Pod"], given["Now"], given["GCSeconds"]
    amounts = {"cpu": str(rng.choice([6, 7, 8, 9])), "pods": rng.choice(["110"] * 9 + ["4"])}
    given["Node"]["status"]["allocatable"] |= amounts
    given["Reservations"] = given["Reservations"][:1] if chance(rng, 0.3) else []
    for one in given["Reservations"]:
        one["status"]["phase"] = "Available"
    pods = [_pre_allocatable(rng, f"q{one}", given) for one in range(rng.choice([0, 1, 2, 3, 4]))]
    given["Placed"] = given["Placed"][:1] + pods
    owners = _owners(rng) or [{}]
    if chance(rng, 0.6):
        owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
        for one in pods:
            one["metadata"]["labels"]["app"] = "web"
    new = _reservation(rng, "new")
    new["status"] = {"phase": "Pending"}
    requests: Object = {"cpu": rng.choice(["2", "4", "5", "6"])}
    requests |= {"memory": rng.choice(["2Gi", "6Gi"])} if chance(rng, 0.7) else {}
    new["spec"].setdefault("ttl", "1h")
    spec = {"template": _template(requests), "owners": owners, "preAllocation": True}
    if chance(rng, 0.9):
        spec["allocatePolicy"] = "Restricted"
    if chance(rng, 0.7):
        mode = rng.choice(["Default", "Default", "Cluster", ""])
        spec["preAllocationPolicy"] = {"mode": mode, "enableMultiple": chance(rng, 0.6)}
    new["spec"] |= spec
    new["metadata"].pop("deletionTimestamp", None)
    if chance(rng, 0.3):
        new["metadata"]["labels"][f"{S}pre-allocation-required"] = "true"
    flags = {"Cluster": chance(rng, 0.8), "PrefersNone": chance(rng, 0.3)}
    return {**given, "New": new, **flags}


def _pre_allocatable(rng: Random, name: str, given: Object) -> Object:
    found = _pod(rng, given["Reservations"])
    metadata, annotations = found["metadata"], found["metadata"]["annotations"]
    metadata |= {"name": name, "uid": f"u-{name}"}
    requests: Object = {"cpu": rng.choice(["500m", "1", "1", "2", "2", "3", "5"])}
    requests |= {"memory": rng.choice(["1Gi", "2Gi", "4Gi"])} if chance(rng, 0.4) else {}
    if chance(rng, 0.5):
        metadata["labels"]["pod.koordinator.sh/is-pre-allocatable"] = rng.choice(["true", "no"])
        priority = rng.choice(["1", "2", "-3", "x"])
        annotations["pod.koordinator.sh/pre-allocatable-priority"] = priority
    if chance(rng, 0.8):
        annotations.pop(f"{S}reservation-affinity", None)
    if chance(rng, 0.8):
        annotations.pop(f"{S}exact-match-reservation", None)
    if chance(rng, 0.1):
        written = {"name": "r0", "uid": "u-r0"}
        annotations[f"{S}reservation-allocated"] = json.dumps(written)
    spec = {**_template(requests)["spec"], "nodeName": "n"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def random_reservation_preemption(rng: Random) -> Object:
    """A full node with reservations, of which pods have something, and a pod that preempts."""
    given = random_reservation_node(rng)
    del given["Now"], given["GCSeconds"]
    given["Node"]["status"]["allocatable"] |= {"cpu": str(rng.choice([3, 4, 5])), "pods": "110"}
    for one in given["Reservations"]:
        one["status"]["phase"] = "Available"
        one["spec"]["allocateOnce"] = chance(rng, 0.15)
        one["spec"].pop("taints", None)
        one["spec"].pop("unschedulable", None)
        one["metadata"].pop("deletionTimestamp", None)
    count = rng.choice([2, 3, 4])
    given["Placed"] = [_placed(rng, f"p{one}", given["Reservations"]) for one in range(count)]
    for place, one in enumerate(given["Placed"]):
        one["spec"]["priority"] = rng.choice([0, 0, 1, 2, 10])
        one["status"]["startTime"] = f"2026-07-01T0{place}:00:00Z"
        if chance(rng, 0.1):
            one["metadata"]["labels"] = {f"{S}disable-preemptible": rng.choice(["true", "no"])}
    given["Pod"]["spec"]["priority"] = 10
    given["Pod"]["spec"]["containers"][0]["resources"]["requests"].setdefault("cpu", "1")
    given["Pod"]["metadata"]["labels"]["app"] = "web"
    if chance(rng, 0.7):
        given["Pod"]["metadata"]["annotations"].pop(f"{S}reservation-affinity", None)
    return given


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
