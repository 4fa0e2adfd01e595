"""DynamicResources, against kube-scheduler's own: why, and which devices claims get."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec
import numpy as np
from koord_model.quantity import whole
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import without_reason
from koord_scheduler.plugins.dynamic_resources.columns import ClaimColumns
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    read_device_object,
)
from koord_scheduler.plugins.dynamic_resources.plugin import DynamicResources
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.prepared import prepared

PLUGIN = DynamicResources()


def columns(given: Object) -> ClusterState:
    """A cluster, of which some is known before the rest."""
    nodes = prepared([PLUGIN], length=1)
    devices = nodes.use(ClaimColumns).objects
    pieces = [read_device_object(ResourceSlice, _json(one)) for one in given["slices"]]
    claims = [read_device_object(ResourceClaim, _json(one)) for one in given["claims"]]
    for one in pieces[::2]:
        devices.set_slice(one.metadata.name, one)
    for claim in claims[::2]:
        devices.set_claim(claim.key, claim)
    for document in given["nodes"]:
        nodes.set(read_node(_json(document)))
    for document in given["classes"]:
        one = read_device_object(DeviceClass, _json(document))
        devices.set_class(one.metadata.name, one)
    for one in pieces[1::2]:
        devices.set_slice(one.metadata.name, one)
    for claim in claims[1::2]:
        devices.set_claim(claim.key, claim)
    return nodes


def _json(document: Object) -> bytes:
    return json.dumps(document).encode()


def ours(vector: Vector) -> Fields:
    given, nodes = vector.given, columns(vector.given)
    pod = pod_class(read_pod(_json(given["pod"])), nodes.features.values())
    found = dict(decided("pod", pod, nodes, given))
    chosen = vector.recorded.get("assumedOn")
    if f"pod {chosen} score" not in found:
        return found
    PLUGIN.reserve(pod, nodes, nodes.row(chosen))
    following = pod_class(read_pod(_json(given["next"])), nodes.features.values())
    return found | dict(decided("next", following, nodes, given))


def decided(
    who: str, pod: PodClass, nodes: ClusterState, given: Object
) -> Iterator[tuple[str, object]]:
    names = [one["metadata"]["name"] for one in given["nodes"]]
    rows = np.array([nodes.row(name) for name in names])
    rejection = PLUGIN.pre_filter(pod, nodes).rejection
    reasons, can_run = PLUGIN.reasons(pod, nodes, rows), PLUGIN.filter(pod, nodes)
    fits = np.ones(len(rows), np.bool_) if can_run is None else can_run(rows)
    assert fits.tolist() == without_reason(reasons, rows).tolist()
    if rejection:
        assert not fits.any()
        yield who, rejection
        return
    score = PLUGIN.score(pod, nodes)
    for at, name in enumerate(names):
        here = [one.text for one in reasons if one.rows[at]]
        if here:
            yield f"{who} {name}", worded(here[0])
        elif score is not None:
            yield f"{who} {name} score", int(score(rows[at : at + 1])[0])
            yield f"{who} {name} allocations", allocations(pod, nodes, name)


def allocations(pod: PodClass, nodes: ClusterState, name: str) -> Object:
    row = nodes.row(name)
    assert row is not None
    before = (
        dict(nodes.use(ClaimColumns).objects.used.exclusive),
        nodes.use(ClaimColumns).objects.used.consumed.copy(),
    )
    reservation = PLUGIN.reserve(pod, nodes, row)
    assert reservation is not None
    PLUGIN.unreserve(reservation, nodes)
    assert before == (
        nodes.use(ClaimColumns).objects.used.exclusive,
        nodes.use(ClaimColumns).objects.used.consumed,
    )
    found = {}
    for one in reservation.claims:
        if one.allocation is not None:
            allocation = msgspec.json.decode(msgspec.json.encode(one.allocation))
            for result in allocation["devices"]["results"]:
                result.pop("shareID", None)
            found[one.claim.metadata.name] = plain(allocation)
    return found


def plain(allocation: Object) -> Object:
    """With amounts that are written in one way."""
    for one in allocation["devices"].get("results", ()):
        if "consumedCapacity" in one:
            one["consumedCapacity"] = {
                name: whole(amount) for name, amount in one["consumedCapacity"].items()
            }
    return allocation


def theirs(recorded: Object) -> Fields:
    found: Object = {}
    for who in recorded.keys() & {"pod", "next"}:
        result = recorded[who]
        if before := result.get("prefilter"):
            found[who] = before["reason"]
        for name, node in result.get("nodes", {}).items():
            if rejected := node.get("rejected"):
                found[f"{who} {name}"] = worded(rejected["reason"])
                continue
            found[f"{who} {name} score"] = node["score"]
            found[f"{who} {name} allocations"] = {
                key: plain(one) for key, one in node.get("allocations", {}).items()
            }
    return found


def worded(reason: str) -> str:
    """Errors without the claim, which ours do not name, and without the words of CEL libraries."""
    if "CEL runtime error" in reason:
        return "CEL runtime error"
    return re.sub("^claim [^,:]*[,:] ", "", reason)


def counters_kept(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler keeps counters that it took for a device which it then could not use.

    That needs a constraint, or a device that claims share.
    """
    who, name = field.split()[:2]
    specs = [one["spec"] for one in vector.given["slices"]]
    devices = [
        device
        for spec in specs
        if spec.get("nodeName") == name
        for device in spec.get("devices", ())
        if device.get("consumesCounters")
    ]
    claims = vector.given[who]["spec"].get("resourceClaims", ())
    used = [one.get("resourceClaimName") for one in claims]
    is_constrained = any(
        one["spec"]["devices"].get("constraints")
        for one in vector.given["claims"]
        if one["metadata"]["name"] in {*used, "p-own"}
    )
    is_shared = any(one.get("allowMultipleAllocations") for one in devices)
    return bool(devices) and (is_constrained or is_shared)


def test_claims_get_the_devices_that_they_get_from_kube_scheduler() -> None:
    replay("scheduler_devices", ours, theirs, (counters_kept,))
