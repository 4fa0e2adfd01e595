import json
from typing import Any

import pytest
from koord_hooks.builtin import rdmadeviceinject
from koord_hooks.runner import load
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED
from koord_model.node import Kernel, NodeView
from koord_model.patch import Device, Patch
from koord_model.pod import Container, Pod

PF, VF1, VF2 = "0000:3b:00.0", "0000:3b:00.2", "0000:3b:00.3"
VIEW = NodeView(kernel=Kernel(verbs={PF: "uverbs0", VF1: "uverbs1", VF2: "uverbs2"}))
MANAGER = "/dev/infiniband/rdma_cm"


def ask(*devices: Any, view: NodeView = VIEW) -> Patch | None:
    annotations = {ANNOTATION_DEVICE_ALLOCATED: json.dumps({"rdma": list(devices), "gpu": 3})}
    pod = Pod("train-0", "ml", "uid", {}, annotations)
    return rdmadeviceinject.pre_create_container(Container(pod, "main"), view)


def functions(*addresses: Any) -> dict[str, Any]:
    vfs = [{"minor": 0, "busID": address} for address in addresses]
    return {"minor": 0, "id": PF, "extension": {"vfs": vfs}}


def test_a_device_is_found_by_its_address() -> None:
    assert ask({"minor": 0, "id": PF}) == Patch(
        devices={
            MANAGER: Device(MANAGER, "rw", 0o666),
            "/dev/infiniband/uverbs0": Device("/dev/infiniband/uverbs0", "rw", 0o666),
        },
        why=f"device-allocated gives RDMA devices: {PF} is uverbs0",
    )


def test_virtual_functions_go_before_the_device() -> None:
    patch = ask(functions(VF1, VF2))
    assert patch is not None
    assert set(patch.devices) == {
        MANAGER,
        "/dev/infiniband/uverbs1",
        "/dev/infiniband/uverbs2",
    }


def test_addresses_are_the_same_in_capitals() -> None:
    patch = ask({"id": PF.upper()})
    assert patch is not None
    assert "/dev/infiniband/uverbs0" in patch.devices


def test_an_address_the_node_does_not_have_is_told_and_the_others_stay() -> None:
    patch = ask(functions("0000:99:00.1"), {"id": PF})
    assert patch is not None
    assert set(patch.devices) == {MANAGER, "/dev/infiniband/uverbs0"}
    [line] = patch.ignored
    assert line == (
        "pod ml/train-0: annotation scheduling.koordinator.sh/device-allocated: rdma: "
        f'"0000:99:00.1" is no RDMA device of this node; there are: {PF}, {VF1}, {VF2}'
    )


def test_without_any_device_there_is_nothing_to_manage() -> None:
    patch = ask({"id": PF}, view=NodeView())
    assert patch is not None
    assert patch == Patch(ignored=patch.ignored)
    assert patch.ignored[0].endswith("there are: none")


@pytest.mark.parametrize("device", [{"id": 3}, functions(3), functions([]), 7])
def test_what_is_no_address_is_told(device: Any) -> None:
    patch = ask(device)
    assert patch is not None
    assert patch.devices == {}
    [line] = patch.ignored
    assert line.startswith("pod ml/train-0: annotation ")


@pytest.mark.parametrize("devices", [(), ({"minor": 0},), ({"id": ""},)])
def test_a_pod_without_devices_is_left_alone(devices: tuple[Any, ...]) -> None:
    assert ask(*devices) is None
    plain = Container(Pod("p", "n", "u"), "main")
    assert rdmadeviceinject.pre_create_container(plain, VIEW) is None


def test_it_is_found_by_its_file_name() -> None:
    assert [stage.value for stage in load(["rdmadeviceinject"]).stages()] == ["PreCreateContainer"]
