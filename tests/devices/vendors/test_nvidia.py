"""NVIDIA's GPUs by NVML: links, parts, and health through time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from koord_devices.contract import ToolError
from koord_devices.core.accelerator import DeviceLink
from koord_devices.vendors.nvidia import Vendor
from koord_host.nvml import NVML

from tests.support.fake_nvml import LIBRARY_NOT_FOUND, FakeGPU, FakeNVML
from tests.support.recorded_tools import RecordedNode, pci_tree


@pytest.fixture
def library() -> FakeNVML:
    tree = {"GPU-a": {"GPU-b"}, "GPU-b": {"GPU-a"}, "GPU-c": set()}
    return FakeNVML(
        [
            FakeGPU(uuid, minor, f"00000000:{0x3B + minor:02X}:00.0", linked=linked)
            for minor, (uuid, linked) in enumerate(tree.items())
        ]
    )


@pytest.fixture
def node(library: FakeNVML) -> Iterator[RecordedNode]:
    nvml = NVML(library)
    tree = pci_tree(("0000:3b:00.0", "10de", "20b0", "030200"))
    yield RecordedNode({}, tree, nvml)
    nvml.close()


def test_places_links_and_parts(library: FakeNVML, node: RecordedNode) -> None:
    library.gpus[0].instances = {2: ("MIG-1", "NVIDIA A100 MIG 1g.10gb", 10 << 30)}
    library.gpus[0].ecc = 4
    first, second, third = Vendor().probe(node, ())
    device = first.device
    assert (device.minor, device.bus, device.numa_node) == (0, "0000:3b:00.0", 1)
    assert (device.pcie, first.driver) == ("pci0000:80", "570.86.15")
    assert first.links == (DeviceLink((1,), "NVLink"),)
    assert third.links == ()
    part = {"uuid": "MIG-1", "profile": "1g.10gb", "memory": 10 << 30}
    assert first.details == {"eccUncorrected": 4, "migInstances": [part]}
    assert (second.device.bus, second.device.pcie) == ("0000:3c:00.0", "")  # sysfs has no such one


def test_health(library: FakeNVML, node: RecordedNode) -> None:
    """What the driver says, and rows of memory; a GPU that is lost costs itself alone."""
    vendor = Vendor()
    library.gpus[0].recovery = 1
    library.gpus[1].rows = (0, 1, 0, 1)
    assert [one.device.reason for one in vendor.probe(node, ())] == [
        "ResetRequired",
        "RowRemapFailure",
        "",
    ]
    library.gpus[0].recovery = 0
    library.gpus[2].lost = True
    assert [one.device.reason for one in vendor.probe(node, ())] == [
        "",
        "RowRemapFailure",
        "NotAnswering",
    ]


def test_an_error_of_the_driver_lasts_five_minutes(library: FakeNVML, node: RecordedNode) -> None:
    vendor, first = Vendor(), library.gpus[0]
    vendor.probe(node, ())
    library.events.put((first, 79))
    first.recovery = 0  # a driver that says that no reset is needed has the last word
    for _ in range(1000):
        (found, *_) = vendor.probe(node, ())
        if found.device.reason:
            break
    assert found.device.reason == "Xid79"
    node.steady += 301
    assert vendor.probe(node, ())[0].device.reason == ""


def test_without_a_library_it_fails(library: FakeNVML, node: RecordedNode) -> None:
    library.broken = LIBRARY_NOT_FOUND
    with pytest.raises(ToolError) as caught:
        Vendor().probe(node, ())
    assert caught.value.reason == "DriverUnavailable"
