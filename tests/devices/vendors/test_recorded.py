"""What each vendor makes of recorded outputs of its tools, in several versions."""

from __future__ import annotations

from typing import Any

import pytest
from koord_devices.contract import ToolError
from koord_devices.core.accelerator import Accelerator, DeviceLink
from koord_devices.core.tool_output import OutputError
from koord_devices.vendor_table import load
from koord_host.devices import pci
from koord_host.devices.pci import PCIFunction

from tests.support.recorded_tools import RecordedNode, pci_tree, recorded
from tests.support.text_tree import TextTree

VENDORS = load(["*"])
GI = 1 << 30
MI = 1 << 20
CORE, MEMORY = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory"
NPU = ("huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp")


def probe(vendor: str, name: str, tree: TextTree | None = None) -> list[Accelerator]:
    node = RecordedNode(recorded(name), tree)
    functions = [
        one for one in (pci.functions(tree, "/sys") if tree else ()) if VENDORS[vendor].owns(one)
    ]
    return list(VENDORS[vendor].probe(node, functions))


def fields(one: Accelerator) -> dict[str, Any]:
    device = one.device
    return {
        "id": device.id,
        "minor": device.minor,
        "model": one.model,
        "driver": one.driver,
        "memory": device.resources[MEMORY],
        "bus": device.bus,
        "wrong": device.reason,
        "links": one.links,
    }


def row(
    id: str,  # noqa: A002
    minor: int,
    model: str,
    driver: str,
    memory: int,
    bus: str,
    wrong: str = "",
    links: tuple[DeviceLink, ...] = (),
) -> dict[str, Any]:
    return {
        "id": id,
        "minor": minor,
        "model": model,
        "driver": driver,
        "memory": memory,
        "bus": bus,
        "wrong": wrong,
        "links": links,
    }


HCCS = (DeviceLink((1,), "HCCS"),), (DeviceLink((0,), "HCCS"),)
CASES = {
    ("huawei", "huawei-910b"): [
        row("npu-0-0", 0, "Ascend-910B3", "25.5.1", 64 * GI, "0000:c1:00.0", "", HCCS[0]),
        row("npu-1-1", 1, "Ascend-910B3", "25.5.1", 64 * GI, "0000:81:00.0", "Unhealthy", HCCS[1]),
    ],
    ("huawei", "huawei-310-21.0.4"): [
        row(f"npu-6-{chip}", chip, "MiniD", "21.0.4", 8 * GI, f"0000:8{9 + chip:x}:00.0".lower())
        if chip == 0
        else row(f"npu-6-{chip}", chip, "MiniD", "21.0.4", 8 * GI, f"0000:8{'abc'[chip - 1]}:00.0")
        for chip in range(4)
    ],
    ("cambricon", "cambricon-5.10.13"): [
        row(f"MLU-20222222-1600-000{card}-0000-000000000000", card, "MLU370-X8", "5.10.13",
            23374 * MI, bus, wrong)
        for card, bus, wrong in ((0, "0000:39:00.0", ""), (1, "0000:3d:00.0", "Unhealthy"))
    ],
    ("cambricon", "cambricon-4.20.11"): [
        row("10222222-1600-0000-0000-000000000000", 0, "MLU370-X4", "4.20.11", 23308 * MI,
            "0000:5e:00.0"),
        row("", 1, "MLU370-X4", "4.20.11", 23308 * MI, ""),
    ],
    ("kunlun", "kunlun-p800"): [
        row("xpu-0", 0, "P800-OAM", "", 96 * GI, "0000:03:00.0"),
        row("xpu-1", 1, "P800-OAM", "", 96 * GI, "0000:05:00.0"),
    ],
    ("kunlun", "kunlun-r480"): [
        row("xpu-0", 0, "R480-X8", "", 32 * GI, "0000:53:00.0"),
        row("xpu-1", 1, "R480-X8", "", 32 * GI, "0000:56:00.0"),
    ],
    ("metax", "metax-2.2.12"): [
        row("GPU-df110ed1-56d2-e35b-d97b-e23bca667d75", 0, "C500", "3.8.30", 64 * GI,
            "0000:37:00.0", "", (DeviceLink((1,), "MetaXLink"),)),
        row("", 1, "MXC500", "", 0, "0000:0e:00.0", "NotAvailable",
            (DeviceLink((0,), "MetaXLink"),)),
        row("", 2, "MXC500", "", 0, "0000:0f:00.0", "NotAvailable"),
    ],
    ("metax", "metax-2.2.9"): [
        row("GPU-e702f06b-bbd6-bc06-5196-90a5554a24ba", 0, "C500", "2.14.8", 64 * GI,
            "0000:08:00.0", "ECCError"),
        row("GPU-0e715b45-bcef-1500-e2db-752724095700", 7, "C500", "", 64 * GI, "0000:3c:00.0"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_recorded_output(case: tuple[str, str]) -> None:
    assert [fields(one) for one in probe(*case)] == CASES[case]


def test_resources_of_an_npu() -> None:
    """Cores by npu-smi, CPUs by Koordinator's table of models or by npu-smi."""
    (first, _), (chip, *_) = probe("huawei", "huawei-910b"), probe("huawei", "huawei-310-21.0.4")
    assert [first.device.resources[name] for name in NPU] == [24, 7, 100]
    assert [chip.device.resources[name] for name in NPU] == [2, 1, 100]


@pytest.mark.parametrize(
    ("command", "before", "after", "expected"),
    [
        ("-t board", "Chip Fault                     : 0", "Chip Fault : 2", ("ChipFault", 2, 1)),
        ("-t cpu-num-cfg", None, None, ("", 2, 0)),
        ("info -m", "MiniD", "Ascend 310P3", ("", 8, 1)),
        ("-t topo", None, None, ("", 2, 1)),
    ],
)
def test_cards_that_say_less_or_worse(
    command: str, before: str | None, after: str | None, expected: tuple[str, int, int]
) -> None:
    printed = recorded("huawei-310-21.0.4")
    for name in [one for one in printed if one.endswith(command)]:
        if before is None or after is None:
            del printed[name]
        else:
            printed[name] = printed[name].replace(before, after)
    device = VENDORS["huawei"].probe(RecordedNode(printed), ())[0].device
    assert (device.reason, device.resources[NPU[0]], device.resources[NPU[1]]) == expected


def test_a_physical_id_is_the_minor() -> None:
    """/dev/davinciN has the physical number; a card's dies are two accelerators."""
    from koord_devices.vendors.huawei import Chip, chips_of

    printed = recorded("huawei-910-phy-id")["npu-smi info -m"]
    assert chips_of(printed) == [Chip(2, 0, 4, "Ascend910"), Chip(2, 1, 5, "Ascend910")]


def drm(tree: TextTree, address: str, minor: int) -> None:
    where = tree.links[f"/sys/bus/pci/devices/{address}"]
    tree.texts[f"{where}/drm/card{minor}/dev"] = f"226:{minor}\n"
    tree.texts[f"{where}/drm/renderD{128 + minor}/dev"] = f"226:{128 + minor}\n"


def amd_tree() -> TextTree:
    """Two GPUs that XGMI links, one in a processor, and what is none."""
    tree = pci_tree(
        ("0000:41:00.0", "1002", "74a1", "120000"),
        ("0000:c9:00.0", "1002", "74a1", "038000"),
        ("0000:06:00.0", "1002", "164e", "030000"),
        ("0000:41:00.1", "1002", "ab20", "040300"),
    )
    sizes = {"0000:41:00.0": 192 * GI, "0000:c9:00.0": 192 * GI, "0000:06:00.0": 64 * MI}
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    tree.texts[f"{nodes}/0/properties"] = "cpu_cores_count 64\nlocation_id 0\ndomain 0\n"
    for index, (address, size) in enumerate(sizes.items()):
        where = tree.links[f"/sys/bus/pci/devices/{address}"]
        tree.texts[f"{where}/mem_info_vram_total"] = f"{size}\n"
        tree.texts[f"{where}/unique_id"] = f"92e93d5e0f2f0d5{index}\n"
        drm(tree, address, index)
        place = int(address[5:7], 16) << 8
        node = f"{nodes}/{index + 1}"
        tree.texts[f"{node}/properties"] = f"simd_count 304\nlocation_id {place}\ndomain 0\n"
    for node, other in ((1, 2), (2, 1)):
        link = f"type 11\nversion_major 0\nnode_from {node}\nnode_to {other}\n"
        tree.texts[f"{nodes}/{node}/io_links/0/properties"] = link
        tree.texts[f"{nodes}/{node}/io_links/1/properties"] = "type 2\nnode_to 0\n"
    tree.texts[f"{tree.links['/sys/bus/pci/devices/0000:c9:00.0']}/ras/umc_err_count"] = (
        "ue: 2\nce: 17\n"
    )
    return tree


@pytest.mark.parametrize(
    ("name", "model", "driver"),
    [
        ("amd-smi-24", ["AMD Instinct MI300X", ""], "6.10.5"),
        ("rocm-smi-5", ["", "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2"], "5.16.9.22.20"),
        ("kunlun-r480", ["", ""], ""),
    ],
)
def test_amd_by_sysfs_with_whatever_tool(name: str, model: list[str], driver: str) -> None:
    found = probe("amd", name, amd_tree())
    ids = [one.device.id for one in found]
    assert ids == ["amd-92e93d5e0f2f0d50", "amd-92e93d5e0f2f0d51"]
    assert [one.model for one in found] == model
    assert driver in {one.driver for one in found}
    assert [one.device.resources[MEMORY] for one in found] == [192 * GI, 192 * GI]
    assert [one.links for one in found] == [
        (DeviceLink((1,), "XGMI"),),
        (DeviceLink((0,), "XGMI"),),
    ]
    assert [one.device.reason for one in found] == ["", "ECCError"]


@pytest.mark.parametrize(
    ("name", "model", "size"),
    [
        ("amd-smi-25", "AMD Instinct MI210", 65520 * MI),
        ("rocm-smi-6.2.4", "Navi 32 [Radeon RX 7700 XT / 7800 XT]", 17163091968),
    ],
)
def test_amd_by_a_tool_that_does_not_say_where(name: str, model: str, size: int) -> None:
    """In a virtual machine sysfs may lack all files but those of the bus."""
    tree = pci_tree(("0000:41:00.0", "1002", "740f", "038000"))
    (one,) = probe("amd", name, tree)
    assert (one.model, one.device.resources[MEMORY]) == (model, size)


@pytest.mark.parametrize(
    ("name", "address", "model", "size", "driver"),
    [
        ("intel-1.0", "0000:4d:00.0", "Intel(R) Graphics [0x020a]", 32 * GI, "16929133"),
        ("intel-1.3", "0000:18:00.0", "Intel(R) Graphics [0xe211]", 25669140480,
         "7B7A46009E666C4D10E1134"),
        ("kunlun-r480", "0000:18:00.0", "Intel-e211", 0, ""),
    ],
)  # fmt: skip
def test_intel(name: str, address: str, model: str, size: int, driver: str) -> None:
    tree = pci_tree(
        (address, "8086", "e211", "030000"),
        ("0000:00:02.0", "8086", "a780", "030000"),
        ("0000:00:1f.3", "8086", "7a50", "040300"),
    )
    drm(tree, address, 1)
    (one,) = probe("intel", name, tree)
    device = one.device
    assert (device.id, device.minor, device.numa_node) == (f"intel-{address}", 1, 1)
    assert device.pcie == "pci0000:80"
    assert (one.model, device.resources[MEMORY], one.driver) == (model, size, driver)


def test_functions_have_one_owner_or_none() -> None:
    """By vendor and class: bridges, sound and network cards are nobody's."""
    owned = {
        ("10de", "20b0", "030200"): ["nvidia"],
        ("10de", "1af1", "068000"): [],
        ("10de", "10f7", "040300"): [],
        ("19e5", "d802", "120000"): ["huawei"],
        ("19e5", "1711", "120000"): [],
        ("19e5", "0222", "020000"): [],
        ("cabc", "0370", "120000"): ["cambricon"],
        ("1d22", "3688", "120000"): ["kunlun"],
        ("9999", "4001", "038000"): ["metax"],
        ("9999", "4001", "060400"): [],
        ("1002", "74a1", "120000"): ["amd"],
        ("1002", "ab20", "040300"): [],
        ("8086", "56c0", "038000"): ["intel"],
        ("15b3", "1019", "020700"): [],
    }
    for (vendor, device, of_class), names in owned.items():
        function = PCIFunction("0000:41:00.0", vendor, device, of_class)
        assert [name for name, each in VENDORS.items() if each.owns(function)] == names


@pytest.mark.parametrize("vendor", ["huawei", "cambricon", "kunlun", "metax"])
def test_a_tool_that_fails_or_prints_nothing_is_an_error(vendor: str) -> None:
    """Never an empty answer, which would mean that all devices are gone."""
    first = {
        "huawei": "npu-smi info -m",
        "cambricon": "cnmon",
        "kunlun": "xpu_smi -m",
        "metax": "mx-smi -L",
    }[vendor]
    with pytest.raises(ToolError):
        VENDORS[vendor].probe(RecordedNode({}), ())
    with pytest.raises(OutputError):
        VENDORS[vendor].probe(RecordedNode({first: ""}), ())
