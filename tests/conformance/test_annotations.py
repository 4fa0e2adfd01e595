"""Readers of annotations, against Koordinator's own, and what Koordinator makes of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from koord_manager.noderesource.webhook.resource_amplification import mutate_node_status
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model import cpuset, node_document
from koord_model.device_allocated import devices_of
from koord_model.extended_resources import batch_resources
from koord_model.fields import Fields as Read
from koord_model.keys import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord_model.node import SharedPool
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, Processor
from koord_model.pod import Pod
from koord_model.quantity import milli, whole
from koord_model.resource_status import resource_status
from koord_serving.admission.core.admission import AdmissionOperation, AdmissionRequest
from koordlet.metrics_reporter.documents.topology_annotations import TopologyInputs, annotations_of

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

POOLS = "node.koordinator.sh/cpu-shared-pools"
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
RATIOS = "node.koordinator.sh/resource-amplification-ratio"
RAW = "node.koordinator.sh/raw-allocatable"
RESERVATION = "node.koordinator.sh/reservation"
SYSTEM = "node.koordinator.sh/system-qos-resource"

MACHINE = NodeCPUInfo(tuple(Processor(cpu, cpu // 2, cpu // 8, cpu // 8) for cpu in range(16)))
FIRST_POOL = 1000
"""The CPU of NUMA node 0's shared pool, of which ``near`` tells."""


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    pod = Pod("p", "ns", "u", annotations=given["annotations"])
    try:
        found = _READERS[given["reader"]](given, pod)
    except ValueError:
        return {"error": True}
    return _reported(found)


def _status(given: Object, pod: Pod) -> Object:
    found = resource_status(pod)
    return {
        "cpuset": found.cpuset,
        "placed": sorted(found.placed),
        "near": sorted(found.numa_nodes),
    }


def _extended(given: Object, pod: Pod) -> Object:
    fields = ("cpu_request", "cpu_limit", "memory_limit")
    return {
        name: {field: amount.value for field in fields if (amount := getattr(one, field))}
        for name, one in (batch_resources(pod) or {}).items()
    }


def _devices(given: Object, pod: Pod) -> Object:
    fields = {"core": GPU_CORE, "memory": GPU_MEMORY, "ratio": GPU_MEMORY_RATIO}
    listed = [
        {"minor": device.minor}
        | {field: dict(device.resources).get(name) for field, name in fields.items()}
        for device in devices_of(pod, "gpu")[0]
    ]
    addresses = (list(device.addresses) for device in devices_of(pod, "rdma")[0])
    return {"gpu": listed, "rdma": [known for known in addresses if known]}


def _node(given: Object, pod: Pod) -> Object:
    read = Read(given["annotations"], "Node", [])
    said = annotations_of(read, TopologyInputs(MACHINE, NodeMemoryInfo(0)))
    found = {name: json.loads(said[key]) for name, key in _OF_NODES.items()}
    return _of_node(found)


_OF_NODES = {"reservation": RESERVATION, "system": SYSTEM, "pools": POOLS}


def _of_node(found: Object) -> Object:
    """Quantities by value; pools by their NUMA node, without CPUs as if they were not there."""
    resources = found["reservation"].get("resources", {})
    amounts = {name: milli(str(one)) for name, one in resources.items()}
    pools = {f"{one['socket']}/{one['node']}": one.get("cpuset") for one in found["pools"]}
    return {**found, "reservation": {**found["reservation"], "resources": amounts}, "pools": pools}


def _topology(given: Object, pod: Pod) -> Object:
    document = {"metadata": {"annotations": given["annotations"]}}
    found, _ = node_document.topology(document, be_cpu_manager=True)
    return {
        "policy": found.kubelet_policy,
        "system": found.system_cpuset,
        "shared": _pools(found.shared_pools),
        "be": _pools(found.be_shared_pools or ()),
    }


def _pools(pools: tuple[SharedPool, ...]) -> list[Object]:
    return [{"node": one.numa_node, "cpuset": one.cpuset} for one in pools]


def _ratio(given: Object, pod: Pod) -> Object:
    document = {"metadata": {"annotations": given["annotations"]}}
    ratio, ignored = node_document.normalization_ratio(document)
    return {"error": True} if ignored else {"ratio": ratio}


def _info(given: Object, pod: Pod) -> Object:
    found, ignored = node_document.cpu_basic_info(
        {"metadata": {"annotations": given["annotations"]}}
    )
    if ignored:
        return {"error": True}
    info = found and {"model": found.model, "smt": found.hyper_threads, "turbo": found.turbo}
    return {"info": info or None}


def _amplified(given: Object, pod: Pod) -> Object:
    asked = AdmissionRequest(
        "u", AdmissionOperation.UPDATE, "nodes", object=given["node"], old=given["old"]
    )
    before = copy.deepcopy(given["node"])
    verdict = mutate_node_status(asked, ClusterView())
    assert given["node"] == before
    node = given["node"] if verdict.object is None else verdict.object
    raw = node["metadata"]["annotations"].get(RAW)
    return _amounts(node["status"]["allocatable"], json.loads(raw) if raw else None)


def _amounts(allocatable: Object, raw: Object | None) -> Object:
    return {
        "cpu": milli(allocatable["cpu"]),
        "memory": str(whole(allocatable["memory"])),
        "raw": raw and {"cpu": milli(raw["cpu"]), "memory": whole(raw["memory"])},
    }


_READERS: dict[str, Callable[[Object, Pod], Object]] = {
    "status": _status,
    "extended": _extended,
    "devices": _devices,
    "node": _node,
    "topology": _topology,
    "ratio": _ratio,
    "info": _info,
    "amplified": _amplified,
}


def theirs(recorded: Object) -> dict[str, Any]:
    if "error" in recorded:
        return {"error": True}
    assert "panic" not in recorded
    return _reported(
        next((form(recorded) for part, form in _FORMS.items() if part in recorded), {})
    )


def _their_status(found: Object) -> Object:
    near = [int(one) - FIRST_POOL for one in (found["near"] or "").split(",") if one]
    return {"cpuset": found["cpuset"], "placed": sorted(found["placed"]), "near": sorted(near)}


def _their_devices(found: Object) -> Object:
    listed = [
        {
            "minor": one["minor"],
            "core": one["core"],
            "memory": one["memory"],
            "ratio": one["memory_ratio"],
        }
        for one in found["gpu"]
    ]
    addresses = [
        [vf for vf in one["vfs"] if vf] if one["vfs"] else [one["id"]] for one in found["rdma"]
    ]
    return {"gpu": listed, "rdma": [each for each in addresses if any(each)]}


def _their_topology(found: Object) -> Object:
    pools = {
        kind: [{"node": one["node"], "cpuset": one.get("cpuset", "")} for one in found[kind] or ()]
        for kind in ("shared", "be")
    }
    return {"policy": found["policy"] or "none", "system": found["system"], **pools}


def _their_info(found: Object) -> Object:
    info = found["info"]
    return {"info": {"model": info["model"], "smt": info["hyper_threads"], "turbo": info["turbo"]}}


_FORMS: dict[str, Callable[[Object], Object]] = {
    "near": _their_status,
    "containers": lambda found: dict(found["containers"]),
    "gpu": _their_devices,
    "reservation": _of_node,
    "policy": _their_topology,
    "ratio": lambda found: {"ratio": 1.0 if found["ratio"] == "-1" else float(found["ratio"])},
    "info": _their_info,
    "allocatable": lambda found: _amounts(found["allocatable"], found["raw"]),
}


def _reported(found: Object) -> dict[str, Any]:
    """The ends, without those that say nothing."""
    return {name: end for name, end in leaves(found).items() if end not in (None, "")}


def shortest(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """CPU lists are written in one form."""
    if vector.given["reader"] not in ("node", "topology") or not field.endswith(_LISTS):
        return False
    return (
        field in there
        and here.get(field) == cpuset.render(cpuset.parse(str(there[field]))) != there[field]
    )


_LISTS = ("cpuset", "system")


def not_refused(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """The status of a node is written, whatever its annotations say."""
    del field
    return vector.given["reader"] == "amplified" and "error" in there and "error" not in here


def rounded_down(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Amounts are whole bytes."""
    if vector.given["reader"] != "amplified" or field != "memory" or "error" in there:
        return False
    thousandths = milli(vector.recorded["allocatable"]["memory"])
    return thousandths % 1000 != 0 and here.get(field) == str(thousandths // 1000)


def comes_back(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """What is not amplified any more is the kubelet's again."""
    given = vector.given
    if given["reader"] != "amplified" or field not in ("cpu", "memory") or "error" in there:
        return False
    annotations = given["node"]["metadata"]["annotations"]
    ratio = json.loads(annotations.get(RATIOS) or "{}") or {}
    raw, now = json.loads(annotations.get(RAW, "{}")), given["node"]["status"]["allocatable"]
    if now != given["old"]["status"]["allocatable"] or ratio.get(field, 0) > 1 or not raw:
        return False
    return here.get(field) == (milli(raw["cpu"]) if field == "cpu" else str(whole(raw["memory"])))


def typing_error(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Ratios that are no plain number, or above 100, are none."""
    text = vector.given["annotations"].get(RATIO)
    return (
        text in _NO_RATIOS and "error" in here and "ratio" in there and field in ("error", "ratio")
    )


def negative(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A placement with less than no CPU is none."""
    del field
    names = [one[-1] for one in vector.given["faults"] if one[0] == "range"]
    of_cpu = "cpu" in names or "kubernetes.io/batch-cpu" in names
    return (
        vector.given["reader"] == "status" and of_cpu and "error" in here and "error" not in there
    )


_NO_RATIOS = ("101", "inf", "nan", "0x1p1", "1_0")

DIFFERENCES = (shortest, not_refused, rounded_down, comes_back, negative, typing_error)
DECISIONS = {
    "bad annotations": "A text that is not valid JSON costs itself.",
    "bad fields": "A field of a wrong type costs itself, or what cannot be without it.",
    "bad lists": "A CPU list that is none costs itself, or the pool.",
    "out of range": "An amount below 0 is none.",
    "nulls": "Null is as if it were not there.",
    "unread names": "Of a placement by NUMA node only amounts of CPU are looked at.",
}
"""How inputs read otherwise; what Koordinator made of them, so read, is recorded too."""


def test_annotations() -> None:
    replay("annotations", ours, theirs, DIFFERENCES, DECISIONS)
