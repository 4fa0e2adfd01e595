"""The annotation of a pod's devices."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.device_allocated import (
    PodDevice,
    VirtualFunction,
    read_pod_devices,
    write_pod_devices,
)

DEVICES = (
    PodDevice(
        "gpu", 1, (("koordinator.sh/gpu-core", 50), ("koordinator.sh/gpu-memory", 8 << 30)), "g"
    ),
    PodDevice("rdma", 0, (("koordinator.sh/rdma", 1),), "r", (VirtualFunction("0000:1f:00.2", 3),)),
)


def test_it_is_written_as_koordinator_writes_it() -> None:
    assert json.loads(write_pod_devices(DEVICES)) == {
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


amounts = st.dictionaries(
    st.sampled_from(("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "example.com/npu")),
    st.integers(0, 1 << 53),
).map(lambda found: tuple(sorted(found.items())))
functions = st.builds(VirtualFunction, st.sampled_from(("", "0000:1f:00.2")), st.integers(-1, 9))
devices = st.builds(
    PodDevice,
    st.sampled_from(("gpu", "rdma", "fpga")),
    st.integers(0, 100),
    amounts,
    st.sampled_from(("", "GPU-1")),
    st.lists(functions, max_size=2).map(tuple),
    st.sampled_from(("", "vir02")),
)


@given(st.lists(devices))
def test_what_is_written_reads_as_the_same(given_devices: list[PodDevice]) -> None:
    by_type = tuple(sorted(given_devices, key=lambda device: device.type))
    assert read_pod_devices(write_pod_devices(by_type)) == by_type


def test_a_device_that_cannot_be_used_costs_itself() -> None:
    text = '{"gpu": [{"minor": "x"}, {"minor": 2, "resources": {"a": "1", "b": "?"}}], "rdma": 7}'
    assert read_pod_devices(text) == (PodDevice("gpu", 2, (("a", 1),)),)
    assert read_pod_devices("null") == ()


@pytest.mark.parametrize("text", ["[", "7"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="device-allocated"):
        read_pod_devices(text)
