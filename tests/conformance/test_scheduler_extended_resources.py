"""Extended resources that DeviceClasses back, against kube-scheduler's own plugins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from koord_model.keys import CPU
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import without_reason
from koord_scheduler.plugins.dynamic_resources.assumed_claims import AssumedClaims
from koord_scheduler.plugins.dynamic_resources.columns import ClaimColumns
from koord_scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from koord_scheduler.plugins.node_resources_fit import FitSettings, NodeResourcesFit
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.conformance.test_scheduler_devices import (
    PLUGIN,
    columns,
    counters_kept,
    plain,
    worded,
)
from tests.conformance.vectors import Fields, Object, Vector, replay


def ours(vector: Vector) -> Fields:
    given, nodes = vector.given, columns(vector.given)
    pod = _class(given["pod"], nodes)
    found = dict(decided("pod", pod, nodes, given))
    chosen = vector.recorded.get("assumedOn")
    if chosen is None or f"pod {chosen} written" not in found:
        return found
    PLUGIN.reserve(pod, nodes, nodes.row(chosen))
    return found | dict(decided("next", _class(given["next"], nodes), nodes, given))


def _class(document: Object, nodes: ClusterState) -> PodClass:
    return pod_class(read_pod(msgspec.json.encode(document)), nodes.features.values())


def decided(
    who: str, pod: PodClass, nodes: ClusterState, given: Object
) -> Iterator[tuple[str, object]]:
    fit = NodeResourcesFit(FitSettings({CPU: 1, **dict.fromkeys(given["scored"], 2)}))
    balanced = NodeResourcesBalancedAllocation([CPU, *given["balanced"]])
    names = [one["metadata"]["name"] for one in given["nodes"]]
    rows = np.array([nodes.row(name) for name in names])
    short = fit.reasons(pod, nodes, rows)
    can_run = fit.filter(pod, nodes)
    assert can_run is not None
    assert can_run(rows).tolist() == without_reason(short, rows).tolist()
    scores, evenness = fit.score(pod, nodes), balanced.score(pod, nodes)
    assert scores is not None
    rejection = PLUGIN.pre_filter(pod, nodes).rejection
    if rejection:
        yield who, rejection
    reasons = PLUGIN.reasons(pod, nodes, rows)
    better = PLUGIN.score(pod, nodes)
    for at, name in enumerate(names):
        here = rows[at : at + 1]
        yield f"{who} {name} fit", sorted(one.text for one in short if one.rows[at])
        yield f"{who} {name} fitScore", int(scores(here)[0])
        if evenness is not None:
            yield f"{who} {name} balancedScore", int(evenness(here)[0])
        rejected = [one.text for one in reasons if one.rows[at]]
        if rejected:
            yield f"{who} {name} rejected", "" if rejection else worded(rejected[0])
            continue
        if better is not None and (score := int(better(here)[0])):
            yield f"{who} {name} score", score
        if who == "pod":
            yield f"{who} {name} written", written(pod, nodes, name)


def written(pod: PodClass, nodes: ClusterState, name: str) -> Object:
    """Allocations by claim, and what the claim of extended resources asks for, and for whom."""
    row = nodes.row(name)
    assert row is not None
    before = (
        dict(nodes.use(ClaimColumns).objects.used.exclusive),
        dict(nodes.use(ClaimColumns).objects.claims),
    )
    reservation = PLUGIN.reserve(pod, nodes, row)
    if reservation is None:
        return {}
    PLUGIN.unreserve(reservation, nodes)
    assert before == (
        nodes.use(ClaimColumns).objects.used.exclusive,
        nodes.use(ClaimColumns).objects.claims,
    )
    return dict(_written(reservation))


def _written(reservation: AssumedClaims) -> Iterator[tuple[str, object]]:
    for one in reservation.claims:
        if one.allocation is None:
            continue
        allocation = msgspec.json.decode(msgspec.json.encode(one.allocation))
        for result in allocation["devices"]["results"]:
            result.pop("shareID", None)
        yield "extended" if one.mappings else one.claim.metadata.name, plain(allocation)
        if one.mappings:
            yield "mappings", sorted(one.mappings)
            yield "requests", msgspec.to_builtins(one.claim.spec.devices.requests)


def theirs(recorded: Object) -> Fields:
    found: Object = {}
    for who in recorded.keys() & {"pod", "next"}:
        before = recorded[who].get("prefilter")
        if before:
            found[who] = before["reason"][0]
        for name, node in recorded[who]["nodes"].items():
            found[f"{who} {name} fit"] = node.get("fit", {}).get("reason", [])
            found[f"{who} {name} fitScore"] = node["fitScore"]
            if "balancedScore" in node:
                found[f"{who} {name} balancedScore"] = node["balancedScore"]
            if rejected := node.get("rejected"):
                found[f"{who} {name} rejected"] = worded(rejected["reason"][0])
            elif before:
                found[f"{who} {name} rejected"] = ""
            elif who == "pod":
                found[f"{who} {name} written"] = _their_writes(node.get("binding") or {})
            if node.get("score"):
                found[f"{who} {name} score"] = node["score"]
    return found


def _their_writes(binding: Object) -> Object:
    found: Object = {}
    for name, claim in binding.get("written", {}).items():
        is_extended, requests = bool(claim["annotations"]), claim["spec"]["devices"].get("requests")
        if is_extended and not requests:
            continue  # it then fails to say for which containers this is; here none is made
        if claim["allocation"] is not None:
            found["extended" if is_extended else name] = plain(claim["allocation"])
        if is_extended:
            found["requests"] = [_request(one) for one in requests]
    if status := binding.get("status"):
        names = ("containerName", "resourceName", "requestName")
        found["mappings"] = sorted(
            tuple(one[name] for name in names) for one in status["requestMappings"]
        )
    return found


def _request(one: Object) -> Any:
    """Without what is the default."""
    exactly = {key: each for key, each in one["exactly"].items() if key != "allocationMode"}
    if exactly["count"] == 1:
        del exactly["count"]
    return {"name": one["name"], "exactly": exactly}


def left_over(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A claim of a pod's last attempt keeps it off all nodes there, and is then deleted.

    Here it is deleted where the pod fits nowhere, or before another one is made.
    """
    names = [one["metadata"]["name"] for one in vector.given["claims"]]
    return field.startswith("pod ") and "p-extended-resources-0" in names


def two_of_one_name(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """In scores, a device is also there what another one of its name in the pool is."""
    specs = [one["spec"] for one in vector.given["slices"]]
    names = [
        (one["driver"], one["pool"]["name"], device["name"])
        for one in specs
        for device in one.get("devices", ())
    ]
    return field.endswith("fitScore") and len({*names}) < len(names)


def test_extended_resources_become_the_devices_that_they_become_in_kube_scheduler() -> None:
    replay(
        "scheduler_extended_resources", ours, theirs, (counters_kept, left_over, two_of_one_name)
    )
