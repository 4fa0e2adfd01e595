"""Batch and mid resources of nodes and of their zones, against Koordinator's own plugins."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from typing import Any

from koord_manager.noderesource.core.fleet import Fleet
from koord_manager.noderesource.core.node_state import read_node_state, zones
from koord_manager.noderesource.core.pods import read_pod_summary
from koord_manager.slo_config.core.config import COLOCATION, DEFAULTS, advance
from koord_model.keys import (
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    ANNOTATION_THIRD_PARTY,
    BATCH_CPU,
    BATCH_MEMORY,
    MID_CPU,
    MID_MEMORY,
)
from koord_model.quantity import milli, whole

from tests.conformance.vectors import Fields, Object, Vector, replay


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    now = datetime.fromisoformat(given["now"]).timestamp()
    node = copy.deepcopy(given["node"])
    if given["ratio"]:
        node["metadata"]["annotations"][ANNOTATION_CPU_NORMALIZATION_RATIO] = given["ratio"]
    config, _ = advance(DEFAULTS, {COLOCATION: given["config"]})
    strategies = config.strategies_for(node["metadata"]["labels"], node["metadata"]["annotations"])
    fleet = Fleet()
    fleet.node("n", read_node_state(node), strategies.colocation, now)
    for pod in given["pods"]:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        fleet.pod(key, None, read_pod_summary(json.dumps(pod).encode()))
    fleet.metric("n", json.dumps(given["metric"]).encode())
    if given["nrt"]:
        fleet.topology("n", zones(given["nrt"]))
    fleet.calculate(now)
    found = dict(fleet.desired("n").resources)
    for zone in fleet.desired_zones("n"):
        found |= {f"{zone.name} cpu": zone.cpu, f"{zone.name} memory": zone.memory}
    return {name: amount for name, amount in found.items() if amount is not None}


def theirs(recorded: Object) -> dict[str, Any]:
    found = {name: whole(text) for name, text in recorded["allocatable"].items()}
    for zone, amounts in recorded.get("zones", {}).items():
        found |= {
            f"{zone} cpu": whole(amounts[BATCH_CPU]),
            f"{zone} memory": whole(amounts[BATCH_MEMORY]),
        }
    return found


def refused(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """120 percent, anywhere in the key: nothing of it holds, and co-location was off before."""
    del there
    return here.get(field) is None and 'ThresholdPercent": 120' in vector.given["config"]


def allocated_mid(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """What others gave away of mid resources is taken off, as of batch resources."""
    if field not in (MID_CPU, MID_MEMORY) or field not in here:
        return False
    text = vector.given["node"]["metadata"]["annotations"].get(ANNOTATION_THIRD_PARTY, "{}")
    given_away = sum(
        int(one["resources"][field])
        for one in json.loads(text).get("allocations", ())
        if one["priority"] == "koord-mid"
    )
    return bool(given_away) and here[field] == max(0, there[field] - given_away)


def system_not_measured(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Without the system's usage, or half of it, nothing is offered, where it counts as 0 there."""
    system = vector.given["metric"]["nodeMetric"].get("systemUsage") or {}
    return here.get(field, 0) == 0 and len(system.get("resources") or ()) < 2


def _zones(vector: Vector, field: str, here: Fields, there: Fields) -> list[dict[str, int]] | None:
    """The zones' amounts and sizes; ``None`` if the field is not of a zone."""
    kind = field.partition(" ")[2]
    if kind not in ("cpu", "memory") or field not in here:
        return None
    read = milli if kind == "cpu" else whole
    return [
        {
            "size": read(next(o["allocatable"] for o in z["resources"] if o["name"] == kind)),
            "here": here.get(f"{z['name']} {kind}", -1),
            "there": there.get(f"{z['name']} {kind}", -1),
            "node": here[f"kubernetes.io/batch-{kind}"],
        }
        for z in vector.given["nrt"]["zones"]
    ]


def within_the_node(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Zones that would sum up to more than the node are cut in proportion."""
    found = _zones(vector, field, here, there)
    if not found or len({one["size"] for one in found}) > 1:
        return False
    node = found[0]["node"]
    reported, cut = (sum(one[which] for one in found) for which in ("there", "here"))
    exact = there[field] * node / reported if reported else 0
    return reported > node >= cut and abs(here[field] - exact) <= 1 + _steps(vector)


def by_size(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Zones of several sizes bear what belongs to no zone by their sizes."""
    found = _zones(vector, field, here, there)
    if not found or len({one["size"] for one in found}) == 1:
        return False
    return here[field] >= 0 and sum(one["here"] for one in found) <= found[0]["node"]


def zone_rounding(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Each part of a zone is rounded up to a byte or millicore, there to a thousandth of a byte."""
    found = _zones(vector, field, here, there)
    if not found or len({one["size"] for one in found}) > 1:
        return False
    return 0 < abs(here[field] - there[field]) <= _steps(vector)


def _steps(vector: Vector) -> int:
    """How many parts of a zone are rounded: those of pods, the system, and what is reserved."""
    given = vector.given
    return 3 + len(given["pods"]) + len(given["metric"]["podsMetric"])


def mid_requests(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """What mid pods ask for is taken off where requests count: by policy, and of LSE pods."""
    zone, _, kind = field.rpartition(" ")
    resource = kind if zone else field.removeprefix("kubernetes.io/batch-")
    if resource not in ("cpu", "memory"):
        return False
    name = f"kubernetes.io/mid-{resource}"
    asked = sum(
        whole(container.get("resources", {}).get("requests", {}).get(name, 0))
        for pod in vector.given["pods"]
        for group in ("containers", "initContainers")
        for container in pod["spec"].get(group, ())
    )
    # Of a node's CPUs it may be more, by their speed.
    return 0 < there.get(field, 0) - here.get(field, 0) <= 3 * asked


DIFFERENCES = (
    refused,
    system_not_measured,
    allocated_mid,
    mid_requests,
    within_the_node,
    by_size,
    zone_rounding,
)
DECISIONS = {
    "pods without a metric": "They count as using what they request.",
    "half a metric": "What is not measured of a pod counts as what it asks for.",
    "applications without a class": "They count by their quality class, else as prod.",
    "negative usage": "It counts as nothing.",
    "half of the node's use": "What is missing of it is not known, the other half counts.",
    "ratios of labels": "They are rounded to percent; one that is not from 0 to 1 is passed over.",
}
"""How inputs read otherwise; what Koordinator made of them, so read, is recorded too."""


def test_amounts() -> None:
    replay("node_resource", ours, theirs, DIFFERENCES, DECISIONS)
