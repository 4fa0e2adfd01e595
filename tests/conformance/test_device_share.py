"""Devices of pods, against the allocator and the scores of Koordinator's DeviceShare."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from koord_model.device_allocated import PodDevices, read_pod_devices
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED
from koord_scheduler.extension_points.topology_hints import Mask, mask_of
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import CannotReserve, Plugin, Reason
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import read_device_report
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import (
    NodeDeviceState,
    gpu_labels,
    used_devices,
)
from koord_scheduler.plugins.device_share.plugin import DeviceShare, DeviceShareSettings
from koord_scheduler.plugins.device_share.pod_parts import DEVICE_NEEDS
from koord_scheduler.plugins.device_share.reserved_devices import (
    ReservedDevices,
    allocate_reserved,
    what_is_left,
)
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class
from koord_scheduler.state.pod_reader import PodReader

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

UNRESOLVABLE = "UnschedulableAndUnresolvable"
RESTRICTED = "Restricted"
PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"


class NearNUMANodes(Plugin):
    """Has decided which NUMA nodes a pod is near to; ``None``: it has not."""

    name = "NearNUMANodes"

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask

    def topology_affinity(self, pod: PodClass, nodes: ClusterState, row: int) -> Mask | None:
        return self._mask


def outcome(given: Object) -> Object:
    """What becomes of the pod, by the plugin on columns."""
    scorer = DeviceScorer(tuple(given["Weights"].items()), is_packing=given["Most"])
    nodes, plugin = ClusterState(), DeviceShare(DeviceShareSettings(scorer))
    near = given["NUMANodes"]
    plugin.join([plugin, NearNUMANodes(None if near is None else mask_of(near))])
    plugin.prepare(nodes)
    row = nodes.set(read_node(_json(given["Node"])))
    nodes.use(DeviceColumns).set_report("n", read_device_report(_json(given["Device"])))
    for one in given["Placed"]:
        placed = {**one, "spec": {"containers": [], "nodeName": "n"}}
        nodes.add_pod("n", PodReader(nodes).read(_json(placed)).usage)
    pod = pod_class(read_pod(_json(given["Pod"])), nodes.features.values())
    if rejection := plugin.pre_filter(pod, nodes).rejection:
        return {"prefilter": {"code": UNRESOLVABLE, "reasons": [rejection]}}
    rows = np.array([row])
    if near is None and (reasons := _reasons(plugin, pod, nodes, rows)):
        code = "Unschedulable" if reasons[0].resolvable else UNRESOLVABLE
        return {"rejected": {"code": code, "reasons": [one.text for one in reasons]}}
    try:
        reservation = plugin.reserve(pod, nodes, row)
    except CannotReserve:
        return {"rejected": True}
    score = plugin.score(pod, nodes)
    assert reservation is not None
    assert score is not None
    text = dict(reservation.annotations)[ANNOTATION_DEVICE_ALLOCATED]
    return {"devices": _devices(text or ""), "score": int(score(rows)[0])}


def device_needs(pod: Object) -> PodDeviceNeeds:
    """The devices that a pod asks for."""
    nodes = ClusterState()
    nodes.use(DeviceColumns)
    return pod_class(read_pod(_json(pod)), nodes.features.values()).of(DEVICE_NEEDS)


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def _reasons(plugin: DeviceShare, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
    reasons = [one for one in plugin.reasons(pod, nodes, rows) if one.rows[0]]
    can_run = plugin.filter(pod, nodes)
    assert can_run is not None
    assert bool(can_run(rows)[0]) is (not reasons)
    return reasons


def _devices(annotation: str) -> Object:
    found: Object = {}
    for one in read_pod_devices(annotation):
        device: Object = {"resources": dict(one.resources)}
        if one.functions:
            device["functions"] = [vf.bus for vf in one.functions]
        found.setdefault(one.type, {})[str(one.minor)] = device
    return found


def comparable(vector: Vector) -> list[Object]:
    """The outcomes there, which are several where it depends on the order of a Go map.

    Where the NUMA nodes are known the filter is behind us, and the reason does not matter.
    """
    found: list[Object] = vector.recorded["outcomes"]
    if vector.given["NUMANodes"] is not None:
        for one in found:
            if "rejected" in one:
                one["rejected"] = True
    return found


def ours(vector: Vector) -> Fields:
    """If it is one of the outcomes there, the first of them; otherwise what it is here."""
    mine, outcomes = outcome(vector.given), comparable(vector)
    return leaves(outcomes[0] if mine in outcomes else mine)


def first(recorded: Object) -> dict[str, Any]:
    return leaves(recorded["outcomes"][0])


def _annotation(vector: Vector, name: str) -> Object:
    given = vector.given["Pod"]["metadata"]["annotations"]
    found: Object = json.loads(given.get(f"scheduling.koordinator.sh/{name}", "{}"))
    return found


def _hints(vector: Vector) -> list[Object]:
    return list(_annotation(vector, "device-allocate-hint").values())


def scores_of_all_numa_nodes(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Not of those alone that the pod has to be near to."""
    return field == "score" and vector.given["NUMANodes"] is not None


def one_gpu_is_a_device(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    scopes = {one.get("requiredTopologyScope") for one in _hints(vector)}
    return "Device" in scopes and "score" not in there


def alone_on_a_switch(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    return any(one.get("exclusivePolicy") == "PCIeLevel" for one in _hints(vector))


def better_partitions_first(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    table = vector.given["Device"]["metadata"]["annotations"].get(PARTITIONS, "{}")
    scores = {one["allocationScore"] for size in json.loads(table).values() for one in size}
    return len(scores) > 1 and "prefilter" not in there


def switches_with_both(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """GPUs are tried that have the other devices under their switches."""
    joint = _annotation(vector, "device-joint-allocate")
    rejects = there.keys() & {"rejected", "rejected.reasons[0]"}
    return joint.get("requiredScope") == "SamePCIe" and bool(rejects) and "score" in here


def parts_scored_as_other_devices(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Free and total amounts are exchanged there."""
    ratios = [here[name] for name in here if name.endswith("koordinator.sh/gpu-memory-ratio")]
    return "rejected" not in there.values() and bool(ratios) and min(ratios) < 100


def broken_cards_are_used(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Those that pods had when they broke; there it depends on selectors."""
    broken = [one for one in vector.given["Device"]["spec"]["devices"] if not one["health"]]
    return any("selector" in one for one in _hints(vector)) and bool(broken)


def test_pods_get_the_devices_that_koordinator_gives_them() -> None:
    replay(
        "device_share",
        ours,
        first,
        (
            scores_of_all_numa_nodes,
            one_gpu_is_a_device,
            alone_on_a_switch,
            better_partitions_first,
            switches_with_both,
            parts_scored_as_other_devices,
            broken_cards_are_used,
        ),
    )


def answers(given: Object) -> list[Any]:
    """What the pod gets of each reservation; of one that is not restricted, whether it does."""
    needs = device_needs(given["Pod"])
    if not needs.needs:
        return ["skip"] * len(given["Reserved"])
    owners = [[*map(_held, one["Owners"])] for one in given["Reserved"]]
    left = [
        what_is_left(_held(one["Devices"]), had)
        for one, had in zip(given["Reserved"], owners, strict=True)
    ]
    placed = (
        read_pod_devices(
            one["metadata"]["annotations"]["scheduling.koordinator.sh/device-allocated"]
        )
        for one in given["Placed"]
    )
    state = _state(given, (*placed, *left, *(one for had in owners for one in had)))
    scorer = DeviceScorer(tuple(given["Weights"].items()), is_packing=given["Most"])
    found: list[Any] = []
    for one, devices in zip(given["Reserved"], left, strict=True):
        is_restricted = one["Policy"] == RESTRICTED
        got = allocate_reserved(needs, state, scorer, ReservedDevices(devices, is_restricted))
        if isinstance(got, DeviceRejection):
            found.append("rejected")
        else:
            found.append(_amounts(got) if is_restricted else "fits")
    return found


def _state(given: Object, used: Iterable[PodDevices]) -> NodeDeviceState:
    has = read_device_report(_json(given["Device"])).has
    return NodeDeviceState(has, gpu_labels(given["Node"]["metadata"]["labels"]), used_devices(used))


def _held(document: Object) -> PodDevices:
    return read_pod_devices(json.dumps(document))


def _amounts(devices: PodDevices) -> Object:
    found: Object = {}
    for one in devices:
        found.setdefault(one.type, {})[str(one.minor)] = dict(one.resources)
    return found


def of_reservations(vector: Vector) -> Fields:
    """Where it is one of the answers there, the first of them."""
    pairs = zip(answers(vector.given), vector.recorded["answers"], strict=True)
    return leaves([there[0] if mine in there else mine for mine, there in pairs])


def first_of_each(recorded: Object) -> Fields:
    return leaves([one[0] for one in recorded["answers"]])


def test_owners_get_the_devices_that_koordinator_gives_them() -> None:
    known = (better_partitions_first, parts_scored_as_other_devices)
    replay("reserved_devices", of_reservations, first_of_each, known)
