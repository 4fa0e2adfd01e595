"""The Device object: what it says, what it keeps, and when it is written anew."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from koord_model.node_info import GPUs, RDMADevices, SchedulableDevice, VirtualFunctions, XPUs
from koordlet.metrics_reporter.documents.device import change, device, differs

from tests.support.merge_patch import merged

AT = 1_700_000_000.0
THEN = "2023-11-14T22:13:20Z"


def gpu(minor: int = 0, **fields: Any) -> SchedulableDevice:
    given: dict[str, Any] = {
        "type": "gpu",
        "id": f"GPU-{minor}",
        "minor": minor,
        "resources": {
            "koordinator.sh/gpu-core": 100,
            "koordinator.sh/gpu-memory": 80 << 30,
            "koordinator.sh/gpu-memory-ratio": 100,
        },
        "numa_node": 1,
        "pcie": "pci0000:80",
        "bus": f"0000:8{minor}:00.0",
    }
    return SchedulableDevice(**given | fields)


def nic(bus: str = "0000:3b:00.0", minor: int = 0, **fields: Any) -> SchedulableDevice:
    resources = {"koordinator.sh/rdma": 100}
    return SchedulableDevice(
        "rdma", bus, minor, resources, numa_node=0, pcie="pci0000:3a", bus=bus, **fields
    )


NVIDIA = GPUs((gpu(0), gpu(1)), "nvidia", "NVIDIA A100-SXM4-80GB", "570.86.15")
CARDS = RDMADevices((nic(),))


def made(
    gpus: GPUs | None = NVIDIA,
    xpus: XPUs | None = None,
    rdma: RDMADevices | None = CARDS,
    at: float = AT,
    known: dict[str, Any] | None = None,
) -> dict[str, Any]:
    found = device("n1", "node-uid", gpus, xpus, rdma, at, known)
    assert found is not None
    return found


def health(given: dict[str, Any]) -> dict[str, bool]:
    return {one["id"]: one["health"] for one in given["spec"]["devices"]}


def ids(given: dict[str, Any]) -> list[str]:
    return [one["id"] for one in given["spec"]["devices"]]


def test_the_whole_object() -> None:
    functions = (VirtualFunctions(("0000:3b:00.3", "0000:3b:00.2"), {"b": "2", "a": "1"}),)
    sick = nic(virtual_functions=functions, healthy=False, reason="PortNotActive", message="down")
    healthy = {
        "type": "Healthy",
        "status": "True",
        "lastTransitionTime": THEN,
        "reason": "DeviceHealthy",
        "message": "device is healthy",
    }
    assert made(
        GPUs((gpu(0),), "nvidia", "NVIDIA A100 SXM4 80GB", "570.86.15"), None, RDMADevices((sick,))
    ) == {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {
            "name": "n1",
            "labels": {
                "node.koordinator.sh/gpu-driver-version": "570.86.15",
                "node.koordinator.sh/gpu-model": "A100-SXM4-80GB",
                "node.koordinator.sh/gpu-vendor": "nvidia",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": "n1",
                    "uid": "node-uid",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "devices": [
                {
                    "type": "gpu",
                    "id": "GPU-0",
                    "minor": 0,
                    "health": True,
                    "resources": {
                        "koordinator.sh/gpu-core": "100",
                        "koordinator.sh/gpu-memory": "80Gi",
                        "koordinator.sh/gpu-memory-ratio": "100",
                    },
                    "topology": {
                        "socketID": -1,
                        "nodeID": 1,
                        "pcieID": "pci0000:80",
                        "busID": "0000:80:00.0",
                    },
                    "conditions": [healthy],
                },
                {
                    "type": "rdma",
                    "id": "0000:3b:00.0",
                    "minor": 0,
                    "health": False,
                    "resources": {"koordinator.sh/rdma": "100"},
                    "topology": {
                        "socketID": -1,
                        "nodeID": 0,
                        "pcieID": "pci0000:3a",
                        "busID": "0000:3b:00.0",
                    },
                    "vfGroups": [
                        {
                            "labels": {"a": "1", "b": "2"},
                            "vfs": [
                                {"minor": -1, "busID": "0000:3b:00.2"},
                                {"minor": -1, "busID": "0000:3b:00.3"},
                            ],
                        }
                    ],
                    "conditions": [
                        healthy | {"status": "False", "reason": "PortNotActive", "message": "down"}
                    ],
                },
            ]
        },
    }


def test_files_of_plugins_win_over_nvml() -> None:
    xpus = XPUs((gpu(5, id="NPU-5"),), "huawei", "Ascend", "", '{"2":[]}', "Honor")
    found = made(xpus=xpus)
    assert ids(found) == ["NPU-5", "0000:3b:00.0"]
    assert found["metadata"]["labels"] == {
        "node.koordinator.sh/gpu-model": "Ascend",
        "node.koordinator.sh/gpu-partition-policy": "Honor",
        "node.koordinator.sh/gpu-vendor": "huawei",
    }
    annotation = {"scheduling.koordinator.sh/gpu-partitions": '{"2":[]}'}
    assert found["metadata"]["annotations"] == annotation
    back = made(xpus=XPUs(()), known=found)
    assert ids(back) == ["GPU-0", "GPU-1", "0000:3b:00.0"]
    assert "annotations" not in back["metadata"]
    assert "node.koordinator.sh/gpu-partition-policy" not in back["metadata"]["labels"]


@pytest.mark.parametrize(
    ("gpus", "xpus", "rdma", "listed"),
    [
        (None, None, None, ["GPU-0", "GPU-1", "0000:3b:00.0"]),
        (GPUs((gpu(1),)), None, None, ["GPU-1", "0000:3b:00.0"]),
        (None, XPUs((gpu(2),)), None, ["GPU-2", "0000:3b:00.0"]),
        (None, None, RDMADevices((nic("0000:3c:00.0"),)), ["GPU-0", "GPU-1", "0000:3c:00.0"]),
    ],
)
def test_what_nobody_has_looked_at_stays(
    gpus: GPUs | None, xpus: XPUs | None, rdma: RDMADevices | None, listed: list[str]
) -> None:
    found = made(gpus, xpus, rdma, known=made())
    assert ids(found) == listed
    assert all(health(found).values())


@pytest.mark.parametrize("known", [None, {"metadata": {"name": "n1"}, "spec": {}}])
def test_where_there_was_never_a_device_there_is_nothing_to_say(
    known: dict[str, Any] | None,
) -> None:
    for gpus, xpus, rdma in (
        (None, None, None),
        (GPUs(()), None, None),
        (None, XPUs(()), None),
        (None, XPUs((), whole=False), None),
        (None, None, RDMADevices(())),
        (GPUs(()), XPUs(()), RDMADevices(())),
    ):
        assert device("n1", "node-uid", gpus, xpus, rdma, AT, known) is None


GONE = {"GPU-0": False, "GPU-1": False, "0000:3b:00.0": True}


@pytest.mark.parametrize(
    ("gpus", "xpus", "rdma", "healthy"),
    [
        (GPUs(()), None, None, GONE),
        (None, XPUs(()), None, GONE),
        (None, XPUs((), whole=False), None, GONE),
        (None, XPUs((gpu(1),), whole=False), None, GONE | {"GPU-1": True}),
        (None, None, RDMADevices(()), {"GPU-0": True, "GPU-1": True, "0000:3b:00.0": False}),
        (NVIDIA, XPUs((), whole=False), None, dict.fromkeys(GONE, True)),
    ],
)
def test_what_no_source_reports_any_more_stays_and_is_not_healthy(
    gpus: GPUs | None, xpus: XPUs | None, rdma: RDMADevices | None, healthy: dict[str, bool]
) -> None:
    first = made()
    found = made(gpus, xpus, rdma, AT + 60, known=first)
    assert health(found) == healthy
    for now, before in zip(found["spec"]["devices"], first["spec"]["devices"], strict=True):
        [condition] = now["conditions"]
        assert condition["status"] == str(now["health"])
        assert now == before | {"health": now["health"], "conditions": [condition]}
    # It stays so without being written again, and is well again with its device.
    assert not differs(found, made(gpus, xpus, rdma, AT + 120, known=found))
    assert not differs(made(known=found), first)
    assert made(GPUs(()), known=first)["metadata"] == first["metadata"], "labels stay with them"


def test_what_others_wrote_stays_and_nothing_given_is_changed() -> None:
    known = made()
    known["metadata"] |= {"resourceVersion": "7", "uid": "x"}
    known["metadata"]["labels"]["team"] = "a"
    known["metadata"]["annotations"] = {"note": "b"}
    known["status"] = {"allocations": [{"type": "gpu"}]}
    known["spec"]["devices"].append({"type": "fpga", "id": "F", "minor": 0, "health": True})
    before = copy.deepcopy(known)
    found = made(GPUs((gpu(3),)), known=known)
    assert known == before
    assert found["metadata"]["labels"] == {"team": "a"}
    assert found["metadata"]["annotations"] == {"note": "b"}
    assert (found["status"], found["metadata"]["resourceVersion"]) == (known["status"], "7")
    assert ids(found) == ["F", "GPU-3", "0000:3b:00.0"]


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = made()
    sick = GPUs((gpu(0, healthy=False, reason="Xid79", message="gone"), gpu(1)), "nvidia")
    second = made(sick, at=AT + 60, known=first)
    third = made(sick, at=AT + 120, known=second)
    last = made(at=AT + 180, known=third)
    times = [
        [one["conditions"][0]["lastTransitionTime"][14:19] for one in made["spec"]["devices"]]
        for made in (first, second, third, last)
    ]
    assert times == [
        ["13:20", "13:20", "13:20"],
        ["14:20", "13:20", "13:20"],
        ["14:20", "13:20", "13:20"],
        ["16:20", "13:20", "13:20"],
    ]
    assert second["spec"]["devices"][0]["conditions"][0]["reason"] == "Xid79"


@pytest.mark.parametrize(
    ("reason", "message", "shown"),
    [
        ("Xid48", "m", ("Xid48", "m")),
        ("", "", ("Unknown", "device is unhealthy")),
        ("too hot!", "", ("Unknown", "too hot!")),
        ("E_7", "", ("E_7", "device is unhealthy")),
        ("E7", "m" * 5000, ("E7", "m" * 1024)),
        ("9x", "m", ("Unknown", "m")),
    ],
)
def test_reasons_are_what_the_api_takes(reason: str, message: str, shown: tuple[str, str]) -> None:
    sick = GPUs((gpu(0, healthy=False, reason=reason, message=message),))
    (condition,) = made(sick, None, None)["spec"]["devices"][0]["conditions"]
    assert (condition["reason"], condition["message"]) == shown


@pytest.mark.parametrize(
    ("model", "label"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("Tesla V100-SXM2-16GB", "Tesla-V100-SXM2-16GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada-Generation"),
        ("Graphics Device (TM) / é", "Graphics-Device-TM"),
        ("x" * 80, "x" * 63),
        ("", None),
    ],
)
def test_models_are_labels(model: str, label: str | None) -> None:
    labels = made(GPUs((gpu(),), "nvidia", model))["metadata"]["labels"]
    assert labels.get("node.koordinator.sh/gpu-model") == label


def test_the_order_of_what_is_given_makes_no_difference() -> None:
    devices = [gpu(minor) for minor in (10, 2, 1, 0)]
    cards = [nic(f"0000:{number:02x}:00.0", number) for number in range(4)]
    texts = set()
    for _ in range(5):
        random.shuffle(devices)
        random.shuffle(cards)
        found = made(GPUs(tuple(devices)), None, RDMADevices(tuple(cards)))
        texts.add(json.dumps(found))
    assert len(texts) == 1
    assert [one["minor"] for one in found["spec"]["devices"]] == [0, 1, 2, 10, 0, 1, 2, 3]


def test_time_spelling_and_order_of_others_do_not_differ() -> None:
    old = made()
    assert not differs(old, made(at=AT + 3600, known=old))
    assert not differs(old, made(at=AT + 3600))
    old["spec"]["devices"][0]["resources"]["koordinator.sh/gpu-memory"] = "80Gi"
    old["spec"]["devices"][0]["resources"]["koordinator.sh/gpu-core"] = 100
    old["spec"]["devices"].reverse()
    old["metadata"] |= {"resourceVersion": "9", "annotations": {"note": "x"}}
    old["metadata"]["labels"]["team"] = "a"
    old["status"] = {"allocations": []}
    old["spec"]["devices"][1]["labels"] = {}
    old["spec"]["devices"][1]["vfGroups"] = None
    assert not differs(old, made(known=old))


def changed(minor: int = 0, **fields: Any) -> GPUs:
    return replace(NVIDIA, devices=(gpu(minor, **({"id": "GPU-0"} | fields)), gpu(1)))


@pytest.mark.parametrize(
    "gpus",
    [
        changed(healthy=False, reason="Xid79"),
        changed(resources={"koordinator.sh/gpu-core": 50}),
        changed(id="other"),
        changed(minor=7),
        changed(numa_node=0),
        changed(bus="0000:99:00.0"),
        changed(bus="", pcie=""),
        changed(labels={"a": "b"}),
        replace(NVIDIA, devices=(gpu(0),)),
        replace(NVIDIA, driver="580.1"),
        replace(NVIDIA, partitions='{"1":[]}'),
        replace(NVIDIA, partition_policy="Prefer"),
    ],
)
def test_what_the_scheduler_reads_differs(gpus: GPUs) -> None:
    old = made()
    new = made(gpus, known=old)
    assert differs(old, new)
    assert ("topology" in new["spec"]["devices"][0]) == (gpus.devices[0].bus != "")


def test_another_message_and_another_node_differ() -> None:
    sick = {"healthy": False, "reason": "Xid79"}
    old = made(changed(**sick, message="a"))
    assert differs(old, made(changed(**sick, message="b"), known=old))
    assert differs(old, device("n1", "new-uid", NVIDIA, None, CARDS, AT, old))


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"metadata": {"labels": None, "annotations": None}, "spec": None},
        {"spec": {"devices": None}},
        {"spec": {"devices": [7, {"conditions": [7]}, {"type": "gpu", "conditions": None}]}},
        {"spec": {"devices": [{"type": "fpga", "resources": {"x": "garbage", "y": None}}]}},
    ],
)
def test_an_object_with_holes_is_mended(known: dict[str, Any]) -> None:
    found = made(known=known)
    assert {"GPU-0", "GPU-1", "0000:3b:00.0"} <= {one.get("id") for one in found["spec"]["devices"]}
    assert differs(known, found)
    assert not differs(found, made(known=found))


def test_the_patch_makes_the_object_what_it_should_be() -> None:
    old = made()
    old["metadata"]["labels"] |= {"theirs": "stays"}
    for gpus in (GPUs(()), changed(healthy=False, reason="Xid79", message="b")):
        new = made(gpus, known=old)
        patch = change(old, new)
        assert patch is not None
        after = merged(old, patch)
        assert not differs(after, new)
        assert after["metadata"]["labels"]["theirs"] == "stays"
    assert change(old, made(known=old)) is None


def test_nvml_has_the_later_word_on_a_gpu_that_a_file_describes() -> None:
    """The file knows how GPUs are linked; NVML was asked seconds ago."""
    partitions = '{"2":[{"minors":[0,1]}]}'
    xpus = XPUs((gpu(0), gpu(5)), "nvidia", "A100", "", partitions, "Prefer")
    gpus = GPUs((gpu(0, healthy=False, reason="Xid79"),), "nvidia", "A100", "570")
    found = made(gpus, xpus, None)
    assert [one["health"] for one in found["spec"]["devices"]] == [False, True]
    assert found["metadata"]["annotations"] == {
        "scheduling.koordinator.sh/gpu-partitions": partitions
    }
    assert found["metadata"]["labels"]["node.koordinator.sh/gpu-driver-version"] == "570"
