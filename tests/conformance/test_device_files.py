"""Files of koord-device-daemon, as both koordlets read them, and as both daemons write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_devices.core.document import Document, document, encode, states_of
from koord_devices.core.inventory import VendorState, answered
from koord_devices.vendor_table import load as load_vendors
from koord_host.devices import pci
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_info import XPUs
from koord_model.quantity import whole
from koordlet.metrics_advisor.collectors import xpu
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources
from koordlet.metrics_reporter.documents.device import device

from tests.conformance.vectors import Fields, Object, Vector, header, leaves, load, replay
from tests.support.recorded_tools import RecordedNode, pci_tree, recorded
from tests.support.text_tree import TextTree

HERE = "/var/run/koordlet/xpu-device-infos"


def reported(vector: Vector) -> Fields:
    """The Device object that our koordlet makes of a file."""
    tree = TextTree({f"{HERE}/ic-device": vector.given["file"]})
    one = xpu.Collector(CollectorSources(tree, Layout(2, Driver.SYSTEMD)))
    found = one.collect(CollectContext(0.0, 0.0))
    (info,) = found.infos
    assert isinstance(info, XPUs)
    assert not found.partial
    made = device("n", "u", None, info, None, 0.0)
    assert made is not None
    metadata = made["metadata"]
    return flat(
        {
            "devices": made["spec"]["devices"],
            "labels": metadata.get("labels", {}),
            "annotations": metadata.get("annotations", {}),
        }
    )


def flat(given: Object) -> Fields:
    devices = {one["id"]: _plain(one) for one in given["devices"]}
    partitions = given["annotations"].get("scheduling.koordinator.sh/gpu-partitions")
    table = json.loads(partitions) if partitions else {}
    sets = {
        f"partition {each['minors']}": each["gpuLinkType"]
        for listed in table.values()
        for each in listed
    }
    return {**leaves(devices), **{f"label {k}": v for k, v in given["labels"].items()}, **sets}


def _plain(one: Object) -> Object:
    resources = {name: whole(amount) for name, amount in one["resources"].items()}
    (condition,) = one["conditions"]
    condition = {name: v for name, v in condition.items() if name != "lastTransitionTime"}
    return {**one, "resources": resources, "conditions": condition}


def devices_of(vector: Vector) -> list[Any]:
    return list(json.loads(vector.given["file"]))


def labels_are_of_the_lowest_minor_and_valid(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Koordinator takes the first device of the file, and its model as it is spelled."""
    if field not in ("label node.koordinator.sh/gpu-model", "label node.koordinator.sh/gpu-vendor"):
        return False
    first = min(devices_of(vector), key=lambda one: (int(one["minor"]), one["uuid"]))
    value = first["model" if field.endswith("model") else "vendor"]
    words = "".join(sign if sign.isalnum() or sign in "-._" else " " for sign in value)
    return here.get(field, "") == "-".join(words.removeprefix("NVIDIA ").split()).strip("-._")


def a_policy_where_any_device_has_links(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Koordinator looks at the first device of the file alone."""
    linked = any("p2pLinks" in one["topology"] for one in devices_of(vector))
    name = "label node.koordinator.sh/gpu-partition-policy"
    return field == name and linked and here.get(field) == "Prefer" and field not in there


def no_place_where_none_is_known(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator writes a topology without bus and root complex."""
    name, _, rest = field.partition(".topology.")
    place = {f"{name}.topology.pcieID", f"{name}.topology.busID"}
    return bool(rest) and field not in here and not any(there.get(each) for each in place)


def test_both_koordlets_read_our_files_alike() -> None:
    replay(
        "device_files",
        reported,
        flat,
        (
            labels_are_of_the_lowest_minor_and_valid,
            a_policy_where_any_device_has_links,
            no_place_where_none_is_known,
        ),
    )


def test_our_writer_still_writes_these_files() -> None:
    for vector in load("device_files", 10):
        read = states_of(vector.given["file"])
        assert sum(len(state.accelerators) for state in read.values()) == len(devices_of(vector))
        for ours in json.loads(encode(document(read, None))):
            (theirs,) = (one for one in devices_of(vector) if one["uuid"] == ours["uuid"])
            names = ("vendor", "model", "minor", "resources", "topology", "status")
            assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}


FUNCTIONS = {
    "huawei": ("19e5", "d802", ("0000:c1:00.0", "0000:81:00.0")),
    "cambricon": ("cabc", "0370", ("0000:39:00.0", "0000:3d:00.0")),
    "kunlun": ("1d22", "3688", ("0000:03:00.0", "0000:05:00.0", "0000:53:00.0", "0000:56:00.0")),
    "metax": ("9999", "4001", ("0000:37:00.0", "0000:0e:00.0", "0000:0f:00.0")),
}
DIFFERENCES = {
    "huawei-910b": {
        # It leaves out "info", so npu-smi refuses, which it takes for an Ascend 310P3.
        "resources.koordinator.sh/gpu-memory",
        # Upper case addresses are not found in sysfs.
        "topology.nodeID",
        "topology.pcieID",
        "topology.busID",
        "topology.p2pLinks",
        "status",
        "driver",
    },
    "cambricon-5.10.13": {"topology.nodeID", "topology.pcieID", "status", "driver"},
    "kunlun-p800": {
        # Quoted models are cut, addresses with a long domain not found.
        "model",
        "topology.nodeID",
        "topology.pcieID",
        "topology.busID",
        "details",
    },
    "kunlun-r480": {"details"},
    "metax-2.2.12": {"model", "driver", "topology.p2pLinks"},
    "metax-2.2.9": {
        "model",
        "driver",
        # The last counter counts alone, and GPU 7 is asked for as GPU 1.
        "status",
        "uuid",
        "minor",
        "topology.nodeID",
        "topology.busID",
    },
}


def described(name: str) -> Document:
    """What our daemon writes for the same outputs."""
    vendor = name.partition("-")[0]
    maker, product, addresses = FUNCTIONS[vendor]
    tree = pci_tree(*((address, maker, product, "120000") for address in addresses))
    node = RecordedNode(recorded(name), tree)
    found = load_vendors([vendor])[vendor].probe(node, list(pci.functions(tree, "/sys")))
    return document({vendor: answered(VendorState(), found, 0.0)}, None)


@pytest.mark.parametrize(
    "vector", list(load("device_tools")), ids=lambda one: one.given["recorded"]
)
def test_both_daemons_read_tools_alike_but_for(vector: Vector) -> None:
    """What differs is a defect of Koordinator's daemon, or something that it leaves out."""
    name = vector.given["recorded"]
    ours, theirs = described(name), vector.recorded["devices"]
    differ = set()
    for place in range(max(len(ours), len(theirs))):
        mine = _leaves(ours[place]) if place < len(ours) else {}
        other = _leaves(theirs[place]) if place < len(theirs) else {}
        for field in mine.keys() | other.keys():
            if mine.get(field) != other.get(field):
                differ.add(field)
    assert differ == DIFFERENCES[name]


def test_all_tools_are_replayed() -> None:
    assert header("device_tools")["vectors"] == len(DIFFERENCES)


def _leaves(one: Object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in one.items():
        if name == "resources":
            found |= {f"{name}.{each}": whole(amount) for each, amount in value.items()}
        elif name == "topology":
            found |= {f"{name}.{each}": what for each, what in value.items() if what}
        else:
            found[name] = value
    return found
