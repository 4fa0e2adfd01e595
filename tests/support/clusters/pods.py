"""Random pods: bound ones, and one to schedule."""

from __future__ import annotations

from random import Random

from tests.support.clusters.nodes import tolerations
from tests.support.clusters.resources import containers, resized_status
from tests.support.clusters.selectors import (
    HOSTNAME,
    NAMESPACES,
    NODE_LABELS,
    REGION,
    ZONE,
    Object,
    chance,
    label_selector,
    node_affinity,
    pod_labels,
    some,
)

TOPOLOGIES = [ZONE, ZONE, ZONE, HOSTNAME, HOSTNAME, HOSTNAME, REGION, "rack", "rack", "disk"]
DELETED = "2026-01-01T00:00:00Z"


def _keys(selector: Object) -> set[str]:
    expressions = {one["key"] for one in selector.get("matchExpressions", [])}
    return expressions | selector.get("matchLabels", {}).keys()


def _match_label_keys(rng: Random, term: Object, labels: dict[str, str]) -> None:
    """Keys as the API server stores them: with their values in the selector as well."""
    selector = term.get("labelSelector")
    free = sorted(labels.keys() - _keys(selector or {}))
    if selector is None or not free or not chance(rng, 0.3):
        return
    key = rng.choice(free)
    field, operator = rng.choice([("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")])
    term[field] = [key]
    row = {"key": key, "operator": operator, "values": [labels[key]]}
    term["labelSelector"] = {
        **selector,
        "matchExpressions": [*selector.get("matchExpressions", []), row],
    }


def pod_affinity_term(rng: Random, labels: dict[str, str]) -> Object:
    term: Object = {"topologyKey": rng.choice(TOPOLOGIES)}
    selector = label_selector(rng, like=labels if chance(rng, 0.4) else None)
    if selector is not None:
        term["labelSelector"] = selector
    if chance(rng, 0.25):
        term["namespaces"] = some(rng, [*NAMESPACES], 1, 2)
    if chance(rng, 0.25):
        vocabulary = {"team": ["x"], "env": ["prod", "test"]}
        term["namespaceSelector"] = label_selector(rng, vocabulary) or {}
    _match_label_keys(rng, term, labels)
    return term


def pod_affinity(rng: Random, labels: dict[str, str]) -> Object:
    """Affinity, anti-affinity or both, required and preferred."""
    affinity: Object = {}
    for kind in some(rng, ["podAffinity", "podAntiAffinity"], 1, 2):
        terms: Object = {}
        draw = rng.random()
        if draw < 0.35:
            number = rng.choice([1, 1, 1, 2])
            terms["requiredDuringSchedulingIgnoredDuringExecution"] = [
                pod_affinity_term(rng, labels) for _ in range(number)
            ]
        if draw > 0.2:
            terms["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {
                    "weight": rng.choice([1, 10, 50, 100]),
                    "podAffinityTerm": pod_affinity_term(rng, labels),
                }
                for _ in range(rng.choice([1, 1, 2]))
            ]
        affinity[kind] = terms
    return affinity


def spread_constraints(rng: Random, labels: dict[str, str]) -> list[Object]:
    """Up to three constraints; each pair of key and action once."""
    rows: dict[tuple[str, str], Object] = {}
    for _ in range(rng.choice([1, 1, 2, 3])):
        row: Object = {
            "topologyKey": rng.choice(TOPOLOGIES),
            "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
            "maxSkew": rng.choice([1, 1, 1, 2, 3]),
        }
        selector = label_selector(rng, like=labels)
        if selector is not None:
            row["labelSelector"] = selector
            if labels and chance(rng, 0.2):
                free = {*labels, "none"} - _keys(selector)
                row["matchLabelKeys"] = some(rng, sorted(free), 1, 2)
        if row["whenUnsatisfiable"] == "DoNotSchedule" and chance(rng, 0.5):
            row["minDomains"] = rng.choice([1, 2, 3, 4, 5])
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if chance(rng, 0.5):
                row[policy] = rng.choice(["Honor", "Ignore"])
        rows[row["topologyKey"], row["whenUnsatisfiable"]] = row
    return [*rows.values()]


def host_ports(rng: Random) -> list[Object]:
    """Ports of one container, some of them on the host."""
    rows: dict[tuple[object, ...], Object] = {}
    for _ in range(rng.choice([1, 1, 2])):
        port = rng.choice([80, 80, 8080])
        row: Object = {"containerPort": port}
        if chance(rng, 0.9):
            row["hostPort"] = port
        row["protocol"] = rng.choice(["TCP", "TCP", "TCP", "UDP", "SCTP"])
        if chance(rng, 0.7):
            row["hostIP"] = rng.choice(["0.0.0.0", "127.0.0.1", "10.0.0.1"])
        rows[port, row["protocol"]] = row
    return [*rows.values()]


def _add_ports(rng: Random, spec: Object) -> None:
    rng.choice(spec["containers"])["ports"] = host_ports(rng)
    for one in spec.get("initContainers", []):
        if chance(rng, 0.5):
            one["ports"] = [
                {"containerPort": 90, "hostPort": rng.choice([90, 91]), "protocol": "TCP"}
            ]


def _restart_all_containers(spec: Object) -> None:
    """Only nodes that declare the feature can do that."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
    spec["containers"][0].update(restartPolicy="Never", restartPolicyRules=[rule])


def bound_pod(rng: Random, number: int, node_names: list[str], themes: set[str]) -> Object:
    """A pod on a node; one in seven is being deleted."""
    labels = pod_labels(rng)
    rich = "resources" in themes
    spec = {**containers(rng, rich), "nodeName": rng.choice(node_names)}
    if chance(rng, 0.02):
        spec["nodeName"] = "gone"
    if "podAffinity" in themes and chance(rng, 0.4):
        spec["affinity"] = pod_affinity(rng, labels)
    if "ports" in themes and chance(rng, 0.3):
        _add_ports(rng, spec)
    metadata: Object = {"name": f"p{number}", "namespace": _namespace(rng), "labels": labels}
    if chance(rng, 0.14):
        metadata["deletionTimestamp"] = DELETED
    if chance(rng, 0.1):
        spec["priority"] = rng.choice([-10, 0, 1000])
    pod: Object = {"metadata": metadata, "spec": spec}
    if rich and chance(rng, 0.35):
        pod["status"] = resized_status(rng, spec)
    return pod


def pending_pod(rng: Random, node_names: list[str], themes: set[str]) -> Object:
    """A pod to schedule, with what the themes are about."""
    labels = pod_labels(rng)
    spec = containers(rng, "resources" in themes)
    affinity: Object = {}
    if "nodeAffinity" in themes and chance(rng, 0.85):
        affinity["nodeAffinity"] = node_affinity(rng, node_names)
    if "podAffinity" in themes and chance(rng, 0.8):
        affinity.update(pod_affinity(rng, labels))
    if affinity:
        spec["affinity"] = affinity
    if "nodeAffinity" in themes and chance(rng, 0.3):
        key = rng.choice([*NODE_LABELS])
        spec["nodeSelector"] = {key: rng.choice(NODE_LABELS[key])}
    if themes & {"taints", "unschedulable"} and (rows := tolerations(rng)):
        spec["tolerations"] = rows
    if "spread" in themes:
        spec["topologySpreadConstraints"] = spread_constraints(rng, labels)
    if "ports" in themes:
        _add_ports(rng, spec)
    if "features" in themes and chance(rng, 0.8):
        _restart_all_containers(spec)
    if "images" in themes and chance(rng, 0.25):
        reference = spec["containers"][0]["image"]
        spec["volumes"] = [{"name": "image", "image": {"reference": reference}}]
    if "nodeName" in themes:
        spec["nodeName"] = rng.choice([*node_names, "gone"])
    if chance(rng, 0.1):
        spec["priority"] = rng.choice([-10, 0, 1000])
    metadata = {"name": "pod", "namespace": _namespace(rng), "labels": labels}
    return {"metadata": metadata, "spec": spec}


def _namespace(rng: Random) -> str:
    return rng.choice([*["default"] * 5, "prod", "test"])
