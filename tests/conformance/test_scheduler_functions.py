"""What single pods and nodes mean to the scheduler, against Kubernetes' own functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from koord_model import label_selector
from koord_model.demand import Amounts
from koord_model.quantity import milli, whole
from koord_scheduler.objects.node import Taint, read_node
from koord_scheduler.objects.pod import Toleration, read_pod
from koord_scheduler.objects.requests import PodRequests, pending_requests, placed_requests
from koord_scheduler.objects.tolerations import count_untolerated_preferences, first_untolerated
from koord_scheduler.plugins.node_affinity import NodeAffinity
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import pod_class
from koord_scheduler.state.ports import ANY_ADDRESS, HostPort, HostPortColumns

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay


def requests(given: Object) -> Object:
    pod = read_pod(json.dumps(given["pod"]).encode())
    placed = placed_requests(pod)
    return {
        "requests": _some(pending_requests(pod).amounts),
        "bound": _some(placed.amounts),
        "nonzero": _scored(placed),
    }


def _some(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def _scored(found: PodRequests) -> Amounts:
    return {"cpu": found.scored_cpu, "memory": found.scored_memory}


def selector(given: Object) -> Object:
    if given["selector"] is None:
        return {"match": False, "empty": False}
    found = label_selector.parse(given["selector"], "selector")
    return {"match": found.matches(given["labels"]), "empty": not found.requirements}


def node_affinity(given: Object) -> Object:
    nodes, plugin = ClusterState(), NodeAffinity()
    row = np.array([nodes.set(read_node(json.dumps(given["node"]).encode()))])
    pod = pod_class(read_pod(json.dumps(given["pod"]).encode()))
    can_run, score = plugin.filter(pod, nodes), plugin.score(pod, nodes)
    return {
        "match": can_run is None or bool(can_run(row)[0]),
        "preferred": int(score(row)[0]) if score else 0,
    }


def taints(given: Object) -> Object:
    on_node = msgspec.convert(given["taints"], list[Taint])
    tolerations = msgspec.convert(given["tolerations"], list[Toleration])
    found = first_untolerated(on_node, tolerations)
    return {
        "preferNoSchedule": count_untolerated_preferences(on_node, tolerations),
        "untolerated": None if found is None else (found.key, found.value, found.effect),
    }


def quantity(given: Object) -> Object:
    try:
        return {"milli": milli(given["quantity"]), "value": whole(given["quantity"])}
    except ValueError:
        return {"error": True}


def ports(given: Object) -> Object:
    columns = HostPortColumns()
    used = [_port(*one) for one in given["used"]]
    columns.add(3, (one for one in used if one.port))
    wanted = _port(*given["wanted"])
    found = {"conflict": set(columns.in_conflict(wanted)) == {3}}
    columns.remove(3, (one for one in used if one.port))
    assert columns.in_conflict(wanted) == {}
    return found


def _port(address: str, protocol: str, port: int) -> HostPort:
    return HostPort(protocol or "TCP", port, address or ANY_ADDRESS)


FUNCTIONS: dict[str, Callable[[Object], Object]] = {
    "requests": requests,
    "selector": selector,
    "nodeaffinity": node_affinity,
    "taints": taints,
    "quantity": quantity,
    "ports": ports,
}


def ours(vector: Vector) -> Fields:
    return leaves(FUNCTIONS[vector.given["f"]](vector.given))


def theirs(recorded: Object) -> Fields:
    """Without what nothing asks for: limits, and what its scores of a pending pod forget."""
    found: dict[str, Any] = {}
    for name, one in recorded.items():
        if name in ("requests", "bound"):
            found[name] = _some(one)
        elif name == "untolerated":
            found[name] = one and (one["key"], one.get("value", ""), one["effect"])
        elif name not in ("limits", "fitscore"):
            found[name] = one
    return leaves(found)


def comparisons_of_taints(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """The operators Lt and Gt of tolerations, of a feature gate that is off in Kubernetes 1.36."""
    return bool(vector.given.get("comparing"))


def beyond_64_bits(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Kubernetes' numbers overflow where ours grow; no node has so much."""
    return vector.given["f"] == "quantity" and abs(here.get("milli", 0)) >= 2**63


def below_zero(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Kubernetes rounds negative amounts in ways of its own; the API server accepts none."""
    return vector.given["f"] == "quantity" and here.get("milli", 0) < 0


def spaces(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Spaces around a quantity are passed over; the API server accepts none."""
    return (
        vector.given["f"] == "quantity"
        and vector.given["quantity"].strip() != vector.given["quantity"]
    )


def test_the_functions_return_what_those_of_kubernetes_do() -> None:
    replay(
        "scheduler_functions",
        ours,
        theirs,
        (comparisons_of_taints, beyond_64_bits, below_zero, spaces),
    )
