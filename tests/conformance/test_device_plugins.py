"""Parts of NPUs, and what device plugins read of pods and nodes, against Koordinator."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from koord_kube.protocol.api import NotFoundError
from koord_kube.protocol.request import Request
from koord_model.device_allocated import PodDevices, read_pod_devices
from koord_model.keys import GPU_MEMORY_RATIO, LABEL_GPU_VENDOR, NPU_CORE
from koord_model.times import rfc3339
from koord_scheduler.plugins.device_share.assumed_devices import (
    AssumedDevices,
    device_reservation,
)
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import NO_TEMPLATE, allocate
from koord_scheduler.plugins.device_share.device_object import read_device_report
from koord_scheduler.plugins.device_share.device_plugins import adaption
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.gpu_templates import ModelTemplates, read_gpu_templates
from koord_scheduler.plugins.device_share.node_device_state import (
    NodeDeviceState,
    gpu_labels,
    used_devices,
)
from koord_scheduler.plugins.device_share.node_locker import NodeLocker

from tests.conformance.test_device_share import device_needs
from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

NOW = 1_800_000_000
SCORER = DeviceScorer()
ALLOCATED = "scheduling.koordinator.sh/device-allocated"


def outcome(given: Object) -> Object:
    """What the pod gets of the node, and what is written for it."""
    needs = device_needs(given["Pod"])
    if needs.problem:
        return {"prefilter": {"code": "UnschedulableAndUnresolvable", "reasons": [needs.problem]}}
    report = read_device_report(_json(given["Device"]))
    labels = gpu_labels(given["Node"]["metadata"]["labels"])
    placed = [
        read_pod_devices(one["metadata"]["annotations"][ALLOCATED]) for one in given["Placed"]
    ]
    state = NodeDeviceState(
        report.has,
        labels,
        used_devices(placed),
        _templates(given, f"{labels.vendor}-{labels.model}"),
    )
    # Which isolation a node has is not part of what was recorded.
    found = allocate(replace(needs, isolation=""), state, SCORER)
    if isinstance(found, DeviceRejection):
        code = "Unschedulable" if found.resolvable else "UnschedulableAndUnresolvable"
        return {"rejected": {"code": code, "reasons": [found.text]}}
    reserved = device_reservation(found, report.ids, report.gpu_model, needs.isolation)
    return {"devices": _devices(found), "adapted": asyncio.run(_adapted(given, reserved))}


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def _templates(given: Object, model: str) -> ModelTemplates:
    resources = frozenset(given["Matched"])
    found = read_gpu_templates(_json({"data": {"data.yaml": given["Templates"]}}))
    assert found.ignored == ()
    return found.of_models(resources).get(model, ModelTemplates(resources))


def _devices(devices: PodDevices) -> Object:
    found: Object = {}
    for one in devices:
        template = {"template": one.template} if one.template else {}
        of_kind = found.setdefault(one.type, {})
        of_kind[str(one.minor)] = {"resources": dict(one.resources)} | template
    return found


async def _adapted(given: Object, reserved: AssumedDevices) -> Object:
    try:
        found = adaption(reserved.devices, reserved.gpu_model, reserved.isolation, "n", NOW * 10**9)
    except ValueError:
        return {"error": True}
    annotations = {
        name: "NOW" if text == str(NOW * 10**9) else text
        for name, text in found.annotations.items()
    }
    written: Object = {"annotations": annotations, "labels": dict(found.labels)}
    if found.lock:
        locks = await _locks(given, found.lock)
        return {"error": True} if locks is None else {**written, "locks": locks}
    return written


async def _locks(given: Object, key: str) -> Object | None:
    """The lock of the node for the pod; ``None``: another pod has it."""
    locks = {one["Key"]: one["Raw"] or _lock(one) for one in given["Locks"]}
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": locks}
    written: list[Request] = []

    async def write(request: Request) -> bytes:
        written.append(request)
        return b"{}"

    async def read_node(name: str, namespace: str) -> Object:
        return {"metadata": metadata}

    async def read_pod(name: str, namespace: str) -> Object:
        if f"{namespace}/{name}" not in given["Pods"]:
            raise NotFoundError("gone", 404)
        return {}

    locker = NodeLocker(write, read_node, read_pod, wall=lambda: NOW)
    if await locker.lock("n", key, "shop/p"):
        assert not written
        return None
    body = written[0].body
    assert body is not None
    now = body["metadata"]["annotations"].items()
    return {name: text.replace(rfc3339(NOW), "NOW") for name, text in now}


def _lock(given: Object) -> str:
    return ",".join((rfc3339(NOW - given["Age"]), *given["By"].split("/")))


def ours(vector: Vector) -> Fields:
    """If it is one of the outcomes there, the first of them; otherwise what it is here."""
    mine, outcomes = (
        comparable(outcome(vector.given)),
        [*map(comparable, vector.recorded["outcomes"])],
    )
    return leaves(outcomes[0] if mine in outcomes else mine)


def comparable(recorded: Object) -> Object:
    """That a template is missing everywhere is found before nodes are looked at, there."""
    if recorded.get("prefilter", {}).get("reasons") == [NO_TEMPLATE]:
        return {"rejected": recorded["prefilter"]}
    if "prefilter" in recorded:
        # The resources in it are in any order.
        [reason] = recorded["prefilter"]["reasons"]
        sorted_words = sorted(reason.replace("[", "").replace("]", "").split())
        return {"prefilter": {**recorded["prefilter"], "reasons": sorted_words}}
    if "error" in recorded.get("adapted", {}):
        return {**recorded, "adapted": {"error": True}}
    return recorded


def first(recorded: Object) -> dict[str, Any]:
    return leaves(comparable(recorded["outcomes"][0]))


def nodes_say_what_they_lack(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Also where no model has a template."""
    return field == "rejected.reasons[0]" and there.get(field) == NO_TEMPLATE


def first_of_equal_templates(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There the pod gets none, and the device plugin gives it the whole card."""
    is_template = field.endswith((".template", "huawei.com/npu-core"))
    return is_template and "a_vir02" in str(here.get(field))


def parts_scored_as_other_devices(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Free and total amounts are exchanged there: it is the same part of another card."""
    ratios = [here[name] for name in here if name.endswith(GPU_MEMORY_RATIO)]
    return len(ratios) == 1 and ratios[0] < 100 and without_number(here) == without_number(there)


def without_number(fields: Fields) -> Fields:
    """What a pod gets of one card, whichever it is."""
    number = next((name.split(".")[2] for name in fields if name.startswith("devices.gpu.")), "-")
    return {
        name.replace(f"gpu.{number}", "gpu"): str(one).replace(number, "N", 1)
        if name.startswith("adapted.annotations")
        else one
        for name, one in fields.items()
    }


def cards_have_what_they_give(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There a card that has nothing of a resource has enough of it."""
    vendor = vector.given["Device"]["metadata"]["labels"].get(LABEL_GPU_VENDOR)
    asked = vector.given["Pod"]["spec"]["containers"][0]["resources"]["requests"]
    return vendor != "huawei" and NPU_CORE in asked and "rejected.code" in here


def test_device_plugins_find_what_koordinator_writes_for_them() -> None:
    known = (
        nodes_say_what_they_lack,
        first_of_equal_templates,
        parts_scored_as_other_devices,
        cards_have_what_they_give,
    )
    replay("device_plugins", ours, first, known)
