from __future__ import annotations

from typing import Any

from koord_manager.noderesource.core.fleet import DesiredZone
from koord_manager.noderesource.core.topology import zones_patch
from koord_model.keys import BATCH_CPU, BATCH_MEMORY


def resource(name: str, amount: str, **more: str) -> dict[str, str]:
    return {"name": name, "capacity": amount, "allocatable": amount, "available": amount} | more


def zone(*resources: dict[str, str]) -> dict[str, Any]:
    return {"name": "node-0", "type": "Node", "resources": list(resources), "costs": [1]}


CPU = resource("cpu", "4")


def test_batch_resources_are_put_among_the_others_by_name() -> None:
    other = {"name": "node-1", "resources": [CPU]}
    assert zones_patch([zone(CPU), other], [DesiredZone("node-0", 1500, 1024)]) == {
        "zones": [zone(CPU, resource(BATCH_CPU, "1500"), resource(BATCH_MEMORY, "1Ki")), other]
    }


def test_what_is_there_keeps_what_else_it_says() -> None:
    there = resource(BATCH_CPU, "7", extra="x")
    found = zones_patch([zone(there)], [DesiredZone("node-0", 0, 0)])
    assert found == {
        "zones": [zone(resource(BATCH_CPU, "0", extra="x"), resource(BATCH_MEMORY, "0"))]
    }


def test_nothing_to_write() -> None:
    done = zone(resource(BATCH_CPU, "7"), resource(BATCH_MEMORY, "8"))
    assert zones_patch([done], [DesiredZone("node-0", 7, 8)]) is None
    assert zones_patch([done], []) is None
    assert zones_patch([], [DesiredZone("node-0", 7, 8)]) is None
