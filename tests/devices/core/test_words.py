"""What people and programs get to read: labels, the table, events of the kernel."""

from __future__ import annotations

import pytest
from koord_devices.core.document import Expiry
from koord_devices.core.labels import features, labels
from koord_devices.core.table import table
from koord_devices.core.uevent import concerns_devices
from koord_model.node_info import RDMADevices, SchedulableDevice, VirtualFunctions

from tests.devices.core.test_inventory import accelerator


def test_labels_count_and_agree() -> None:
    found = labels([accelerator("a"), accelerator("b", 1, "", "Xid79")], 2)
    assert found == {
        "devices.koordinator.sh/rdma.count": "2",
        "devices.koordinator.sh/v.count": "2",
        "devices.koordinator.sh/v.healthy": "1",
        "devices.koordinator.sh/v.link": "NVLink",
        "node.koordinator.sh/gpu-driver-version": "1.2",
        "node.koordinator.sh/gpu-model": "m",
        "node.koordinator.sh/gpu-vendor": "v",
    }
    assert labels([], 0) == {}


def test_the_features_file_expires() -> None:
    lines = features({"x/y": "z"}, Expiry(0, 60)).splitlines()
    expiry = "# +expiry-time=1970-01-01T00:01:00Z"
    assert lines == [expiry, "devices.koordinator.sh/timestamp=0", "x/y=z"]
    assert features({"x/y": "z"}, None) == "x/y=z\n"


def test_the_table_has_a_line_for_each_device() -> None:
    card = SchedulableDevice(
        type="rdma",
        id="0000:3b:00.0",
        minor=2,
        numa_node=0,
        pcie="pci0000:3a",
        bus="0000:3b:00.0",
        virtual_functions=(VirtualFunctions(("0000:3b:00.2", "0000:3b:00.3")),),
    )
    lines = table(
        [accelerator("a", 0, "", "Xid79")], RDMADevices((card,)), {card.bus: "0000:3a:02.0"}
    ).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["v", "0"], ["rdma", "2"]]
    assert "no (Xid79: it is broken)" in lines[1]
    assert "64 GiB" in lines[1]
    assert "NVLink:9" in lines[1]
    assert "2 virtual functions" in lines[2]
    assert "0000:3a:02.0" in lines[2]


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        (("ACTION=add", "SUBSYSTEM=pci", "PCI_CLASS=30200", "PCI_SLOT_NAME=0000:3b:00.0"),
         "pci 0000:3b:00.0 add"),
        (("ACTION=remove", "SUBSYSTEM=drm", "DEVPATH=/devices/x/drm/card0"), "drm card0 remove"),
        (("ACTION=add", "SUBSYSTEM=pci", "PCI_CLASS=10802", "PCI_SLOT_NAME=0000:01:00.0"), ""),
        (("ACTION=change", "SUBSYSTEM=drm"), ""),
        (("ACTION=add", "SUBSYSTEM=block"), ""),
    ],
)  # fmt: skip
def test_events_of_the_kernel(parts: tuple[str, ...], what: str) -> None:
    message = "\0".join(("add@/devices/x", *parts, "")).encode()
    assert concerns_devices(message) == what
    assert concerns_devices(b"libudev\0\xfe\xed") == ""
