"""A Device is read device by device: what cannot be used costs one line, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_model.device_allocated import VirtualFunction
from koord_scheduler.plugins.device_share.device_object import (
    DeviceReport,
    DeviceTopology,
    NodeDevice,
    read_device_report,
)

CARD: dict[str, Any] = {
    "type": "gpu",
    "id": "GPU-0",
    "minor": 0,
    "health": True,
    "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi"},
    "topology": {"socketID": 0, "nodeID": 1, "pcieID": "p1", "busID": "0000:08:00.0"},
}


def report(*devices: object, **metadata: object) -> DeviceReport:
    document = {"metadata": {"name": "n1", **metadata}, "spec": {"devices": list(devices)}}
    return read_device_report(json.dumps(document).encode())


def test_a_card_has_amounts_and_a_place() -> None:
    found = report(CARD)
    (card,) = found.has.devices
    assert card == NodeDevice(
        "gpu",
        0,
        (("koordinator.sh/gpu-core", 100), ("koordinator.sh/gpu-memory", 16 << 30)),
        (),
        DeviceTopology(1, "p1"),
    )
    assert found.ids == {("gpu", 0): "GPU-0"}
    assert found.ignored == ()


def test_what_is_not_healthy_has_nothing_to_give() -> None:
    (card,) = report({**CARD, "health": False}).has.devices
    assert card.resources == ()


def test_virtual_functions_are_named_by_their_addresses() -> None:
    group = {"labels": {"kind": "fast"}, "vfs": [{"minor": -1, "busID": "0000:1f:00.2"}]}
    card = {"type": "rdma", "minor": 3, "health": True, "vfGroups": [group]}
    (found,) = report(card).has.devices
    (group_,) = found.groups
    assert group_.labels == (("kind", "fast"),)
    assert group_.functions == (VirtualFunction("0000:1f:00.2", -1),)


def test_machines_of_one_kind_are_equal_whatever_their_cards_are_called() -> None:
    other = {**CARD, "id": "GPU-9"}
    assert report(CARD).has == report(other).has
    assert hash(report(CARD).has) == hash(report(other).has)
    assert report(CARD).has != report({**CARD, "minor": 1}).has


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (7, "devices[0]"),
        ({**CARD, "minor": None}, "devices[0].minor"),
        ({**CARD, "minor": -1}, "devices[0].minor"),
        ({**CARD, "type": None}, "devices[0].type"),
        ({**CARD, "minor": 1}, "devices[1].minor"),
    ],
)
def test_a_bad_device_costs_one_line_and_no_other_device(bad: object, named: str) -> None:
    found = report(bad, {**CARD, "minor": 1})
    assert [one.minor for one in found.has.devices] == [1]
    (line,) = found.ignored
    assert line.startswith(f"Device n1 {named} ")


def test_a_bad_amount_costs_itself() -> None:
    found = report({**CARD, "resources": {"koordinator.sh/gpu-core": "much", "example.com/a": 2}})
    assert found.has.devices[0].resources == (("example.com/a", 2),)
    assert len(found.ignored) == 1


def test_partitions_and_the_policy_are_of_the_object() -> None:
    table = {
        "2": [{"minors": [0, 1], "allocationScore": 2, "ringBusBandwidth": "400Gi"}],
        "1": [{"minors": [0]}, {"minors": [0, 1]}, {"minors": "0"}],
    }
    found = report(
        CARD,
        annotations={"scheduling.koordinator.sh/gpu-partitions": json.dumps(table)},
        labels={"node.koordinator.sh/gpu-partition-policy": "Honor"},
    )
    assert found.has.honors
    assert found.has.partitions is not None
    assert [sorted(one.minors) for one in found.has.partitions] == [[0], [0, 1]]
    assert found.has.partitions[1].score == 2
    assert len(found.ignored) == 2


def test_partitions_that_are_no_json_cost_one_line() -> None:
    found = report(CARD, annotations={"scheduling.koordinator.sh/gpu-partitions": "["})
    assert found.has.partitions is None
    assert len(found.ignored) == 1


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(ValueError, match="not a valid Device"):
        read_device_report(b'{"metadata": 7}')
