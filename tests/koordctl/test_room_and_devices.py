"""What is shown of reservations and devices, by what the API has."""

from __future__ import annotations

import json
import re
from typing import Any

from koord_kube.protocol.resources import DEVICES, PODS, RESERVATIONS
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED, GPU_CORE

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi

CARD = {"type": "gpu", "id": "u", "health": True, "resources": {GPU_CORE: "100"}}


def reservation(name: str, status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "metadata": metadata,
        "spec": {"template": {}, "owners": [{}], **spec},
        "status": status,
    }


def put_devices(api: KubeApi) -> None:
    cards = [CARD | {"minor": 1, "topology": {"nodeID": 1, "pcieID": "p1"}}]
    cards.append(CARD | {"minor": 0, "health": False})
    api.put(DEVICES, {"metadata": {"name": "n1"}, "spec": {"devices": cards}})
    api.put(DEVICES, {"metadata": {"name": "n2"}, "spec": {"devices": [CARD | {"minor": 1}]}})
    half = [{"minor": 1, "resources": {GPU_CORE: "50"}}]
    for name, node, phase, text in (
        ("web", "n1", "Running", json.dumps({"gpu": half})),
        ("done", "n1", "Succeeded", json.dumps({"gpu": half})),
        ("broken", "n1", "Running", '{"gpu": [{}]}'),
        ("waits", "", "Pending", json.dumps({"gpu": half})),
    ):
        annotations = {ANNOTATION_DEVICE_ALLOCATED: text}
        metadata = {"name": name, "annotations": annotations}
        pod = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}
        api.put(PODS, pod, "shop")
    for name, phase in (("next", "Available"), ("old", "Failed")):
        one = reservation(name, {"phase": phase, "nodeName": "n1"})
        one["metadata"]["annotations"] = {ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": half})}
        api.put(RESERVATIONS, one)


async def test_reservations_with_who_has_them_and_why_one_waits(ctl: Ctl, api: KubeApi) -> None:
    waiting = {"type": "Scheduled", "status": "False", "message": "0/3 nodes are available"}
    used = {
        "phase": "Available",
        "nodeName": "n1",
        "allocatable": {"memory": "8Gi", "cpu": "4"},
        "allocated": {"cpu": "2"},
        "currentOwners": [{"namespace": "shop", "name": "web-1"}],
    }
    api.put(RESERVATIONS, reservation("web", used, ttl="1h"))
    api.put(RESERVATIONS, reservation("late", {"conditions": [waiting]}, ttl="0"))
    code, out, _ = await ctl("reservations")
    assert code == 0
    assert out.splitlines() == [
        "NAME  PHASE      NODE  RESERVED           ALLOCATED  PODS        ENDS",
        "late  Pending    –     –                  –          –           never",
        "web   Available  n1    cpu 4, memory 8Gi  cpu 2      shop/web-1  2026-01-01T01:00:00Z",
        "late: 0/3 nodes are available",
    ]
    _, out, _ = await ctl("reservations", "web", "--json")
    assert [one["metadata"]["name"] for one in json.loads(out)] == ["web"]


async def test_devices_with_the_pods_that_have_them(ctl: Ctl, api: KubeApi) -> None:
    put_devices(api)
    code, out, _ = await ctl("devices")
    assert code == 0
    header, *rows = (re.split("  +", line.rstrip()) for line in out.splitlines())
    assert header == [
        *("NODE", "TYPE", "MINOR", "HEALTHY", "NUMA", "PCIE", "HAS", "PODS", "RESERVATIONS"),
    ]
    half = "(gpu-core 50)"
    assert rows == [
        ["n1", "gpu", "0", "no", "–", "–", "gpu-core 100", "–", "–"],
        ["n1", "gpu", "1", "yes", "1", "p1", "gpu-core 100", f"shop/web {half}", f"next {half}"],
        ["n2", "gpu", "1", "yes", "–", "–", "gpu-core 100", "–", "–"],
    ]
    _, out, _ = await ctl("devices", "n2", "--json")
    [one] = json.loads(out)
    assert (one["node"], one["minor"], one["pods"], one["reservations"]) == ("n2", 1, [], [])


async def test_nothing_there_is_said(ctl: Ctl) -> None:
    for command in ("reservations", "devices"):
        code, out, _ = await ctl(command)
        assert code == 0
        assert "found" in out
