import json
from typing import Any

import pytest
from koord_hooks.builtin import rdmadeviceinject
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


@pytest.mark.parametrize(
    ("devices", "verbs"),
    [
        ([functions(VF1, VF2)], {"uverbs1", "uverbs2"}),
        ([{"minor": 0, "id": PF.upper()}], {"uverbs0"}),
        ([{"minor": 0, "id": PF}, functions(VF1)], {"uverbs0", "uverbs1"}),
    ],
    ids=["virtual functions go before the device", "capitals", "several"],
)
def test_which_devices(devices: list[Any], verbs: set[str]) -> None:
    patch = ask(*devices)
    assert patch is not None
    assert set(patch.devices) == {MANAGER, *(f"/dev/infiniband/{one}" for one in verbs)}
    assert patch.ignored == ()


WHERE = "pod ml/train-0: annotation scheduling.koordinator.sh/device-allocated: rdma: "


@pytest.mark.parametrize(
    ("devices", "view", "kept", "line"),
    [
        (
            *(
                [functions("0000:99:00.1"), {"minor": 0, "id": PF}],
                VIEW,
                {MANAGER, "/dev/infiniband/uverbs0"},
            ),
            f'"0000:99:00.1" is not an RDMA device of this node; there are: {PF}, {VF1}, {VF2}',
        ),
        (
            [{"minor": 0, "id": PF}],
            NodeView(),
            set(),
            f'"{PF}" is not an RDMA device of this node; there are: none',
        ),
        *(
            ([one], VIEW, set(), None)
            for one in ({"minor": 0, "id": 3}, functions(3), functions([]), 7)
        ),
    ],
)
def test_an_address_the_node_does_not_have_is_reported_and_the_others_stay(
    devices: list[Any], view: NodeView, kept: set[str], line: str | None
) -> None:
    patch = ask(*devices, view=view)
    assert patch is not None
    assert set(patch.devices) == kept
    [reported] = patch.ignored
    assert reported.startswith("pod ml/train-0: annotation ")
    assert line is None or reported == WHERE + line


@pytest.mark.parametrize("devices", [(), ({"minor": 0},), ({"minor": 0, "id": ""},)])
def test_a_pod_without_devices_is_left_alone(devices: tuple[Any, ...]) -> None:
    assert ask(*devices) is None
    plain = Container(Pod("p", "n", "u"), "main")
    assert rdmadeviceinject.pre_create_container(plain, VIEW) is None
