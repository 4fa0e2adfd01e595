from typing import Any

import pytest
from koord_manager.noderesource.core import devices


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        ({"type": "gpu", "health": True}, True),
        ({"type": "gpu", "health": False}, False),
        ({"type": "gpu"}, False),
        ({"type": "rdma", "health": True}, False),
    ],
)
def test_those_of_a_type_that_are_healthy(one: Any, counts: bool) -> None:
    ignored: list[str] = []
    found = devices.healthy({"spec": {"devices": [one]}}, "gpu", ignored)
    assert (len(found), ignored) == (int(counts), [])


def test_what_cannot_be_read_costs_itself() -> None:
    ignored: list[str] = []
    good = {"type": "gpu", "health": True}
    listed = [7, {"type": "gpu", "health": "yes"}, good]
    device = {"metadata": {"name": "n1"}, "spec": {"devices": listed}}
    assert len(devices.healthy(device, "gpu", ignored)) == 1
    assert ignored == [
        "Device n1 spec.devices[0] is 7; expected an object (left out)",
        'Device n1 spec.devices[1].health is "yes"; expected true or false (default false kept)',
    ]


def test_of_no_device_nothing_is_left() -> None:
    desired = devices.gone(["a", "b"], "gpu", ["a line"])
    assert desired.resources == {"a": None, "b": None}
    assert [one.outcome for one in desired.decisions][1:] == ["a line"]


def test_each_resource_that_there_is_is_a_decision() -> None:
    found = devices.offered({"a": 3, "b": None}, {"a": "a sum"}, 2, ["a line"])
    assert [str(one) for one in found] == ["a 3 (a sum with healthy 2)", "a line"]
