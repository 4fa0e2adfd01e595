"""The annotation of a pod's devices."""

from __future__ import annotations

import json

import pytest
from koord_scheduler.plugins.device_share.device_object import VirtualFunction
from koord_scheduler.plugins.device_share.pod_devices import (
    PodDevice,
    read_pod_devices,
    written_pod_devices,
)

DEVICES = (
    PodDevice(
        "gpu", 1, (("koordinator.sh/gpu-core", 50), ("koordinator.sh/gpu-memory", 8 << 30)), "g"
    ),
    PodDevice("rdma", 0, (("koordinator.sh/rdma", 1),), "r", (VirtualFunction("0000:1f:00.2", 3),)),
)


def test_it_is_written_as_koordinator_writes_it() -> None:
    assert json.loads(written_pod_devices(DEVICES)) == {
        "gpu": [
            {
                "minor": 1,
                "id": "g",
                "resources": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"},
            }
        ],
        "rdma": [
            {
                "minor": 0,
                "id": "r",
                "resources": {"koordinator.sh/rdma": "1"},
                "extension": {"vfs": [{"minor": 3, "busID": "0000:1f:00.2"}]},
            }
        ],
    }


def test_it_reads_the_same_again() -> None:
    assert read_pod_devices(written_pod_devices(DEVICES)) == DEVICES


def test_a_device_that_cannot_be_used_costs_itself() -> None:
    text = '{"gpu": [{"minor": "x"}, {"minor": 2, "resources": {"a": "1", "b": "?"}}], "rdma": 7}'
    assert read_pod_devices(text) == (PodDevice("gpu", 2, (("a", 1),)),)
    assert read_pod_devices("null") == ()


@pytest.mark.parametrize("text", ["[", "7"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="device-allocated"):
        read_pod_devices(text)
