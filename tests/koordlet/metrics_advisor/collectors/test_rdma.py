"""RDMA devices as sysfs shows them, by any driver, whole and half taken away."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.devices.rdma import _minors as minors_of
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_info import RDMADevices, SchedulableDevice, VirtualFunctions
from koordlet.metrics_advisor.collectors import rdma
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources, Samples

from tests.support.text_tree import TextTree

V2 = Layout(2, Driver.SYSTEMD)
CLASS = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"


class Machine:
    """A sysfs with RDMA devices in it."""

    def __init__(self) -> None:
        self.tree = TextTree({f"{CLASS}/.keep": ""})

    def function(
        self,
        bus: str,
        kind: str = "0x020000",
        node: str = "1",
        above: str = "pci0000:3a/0000:3a:00.0",
    ) -> str:
        where = f"/sys/devices/{above}/{bus}"
        self.tree.texts |= {f"{where}/class": f"{kind}\n", f"{where}/numa_node": f"{node}\n"}
        self.tree.links[f"{PCI}/{bus}"] = where
        return where

    def device(self, name: str, where: str, ports: Iterable[str] = ("4: ACTIVE",)) -> None:
        own = f"{where}/infiniband/{name}"
        self.tree.links |= {f"{CLASS}/{name}": own, f"{own}/device": where}
        for number, state in enumerate(ports, 1):
            self.tree.texts[f"{own}/ports/{number}/state"] = f"{state}\n"

    def virtual(self, above: str, number: int, bus: str, name: str = "") -> None:
        where = self.function(bus)
        self.tree.links |= {f"{above}/virtfn{number}": where, f"{where}/physfn": above}
        if name:
            self.device(name, where)

    def collect(self) -> Samples:
        sources = CollectorSources(self.tree, V2)
        return rdma.Collector(sources).collect(CollectContext(0.0, 0.0))

    def devices(self) -> dict[str, SchedulableDevice]:
        (info,) = self.collect().infos
        assert isinstance(info, RDMADevices)
        return {device.id: device for device in info.devices}


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_card_with_virtual_functions(machine: Machine) -> None:
    card = machine.function("0000:3b:00.0")
    machine.device("mlx5_0", card)
    machine.virtual(card, 1, "0000:3b:00.3", "mlx5_3")
    machine.virtual(card, 0, "0000:3b:00.2", "mlx5_2")
    assert machine.devices() == {
        "0000:3b:00.0": SchedulableDevice(
            type="rdma",
            id="0000:3b:00.0",
            minor=0,
            resources={"koordinator.sh/rdma": 100},
            numa_node=1,
            pcie="pci0000:3a",
            bus="0000:3b:00.0",
            virtual_functions=(VirtualFunctions(("0000:3b:00.2", "0000:3b:00.3")),),
        )
    }


@pytest.mark.parametrize(
    ("names", "minors"),
    [
        (["bnxt_re0", "mlx5_1", "rocep94s0f1"], [0, 1, 2]),
        (["mlx5_2", "mlx5_10", "mlx5_7"], [2, 10, 7]),
        (["mlx5_1", "bnxt_re0"], [1, 0]),
    ],
)
def test_the_number_is_mellanoxs_or_the_next_that_is_free(
    machine: Machine, names: list[str], minors: list[int]
) -> None:
    for number, name in enumerate(names):
        machine.device(name, machine.function(f"0000:{number:02d}:00.0"))
    assert [device.minor for device in machine.devices().values()] == minors


@given(
    st.lists(st.sampled_from(["mlx4_0", "mlx5_0", "mlx5_1", "irdma0", "hfi1_0", "x"]), max_size=9)
)
def test_no_two_devices_share_a_number(names: list[str]) -> None:
    by_bus = {f"0000:{number:02x}:00.0": [name] for number, name in enumerate(names)}
    minors = minors_of(by_bus)
    assert len(set(minors.values())) == len(minors) == len(names)


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        (["4: ACTIVE"], ""),
        (["4: ACTIVE", "4: ACTIVE"], ""),
        (["4: ACTIVE", "1: DOWN"], "port 2 of mlx5_0 is 1: DOWN"),
        (["5: ACTIVE_DEFER"], "port 1 of mlx5_0 is 5: ACTIVE_DEFER"),
        (["2: INIT", "1: DOWN"], "port 1 of mlx5_0 is 2: INIT, port 2 of mlx5_0 is 1: DOWN"),
        ([""], "port 1 of mlx5_0 is in no state"),
        ([], "mlx5_0 has no port"),
    ],
)
def test_it_is_healthy_while_every_port_is_active(
    machine: Machine, ports: list[str], message: str
) -> None:
    machine.device("mlx5_0", machine.function("0000:3b:00.0"), ports)
    (device,) = machine.devices().values()
    assert (device.healthy, device.message) == (not message, message)
    assert device.reason == ("PortNotActive" if message else "")


def test_a_card_with_two_devices_is_one(machine: Machine) -> None:
    card = machine.function("0000:3b:00.0")
    machine.device("mlx4_1", card)
    machine.device("mlx4_0", card, ["1: DOWN"])
    (device,) = machine.devices().values()
    assert (device.minor, device.healthy) == (0, False)


@pytest.mark.parametrize("kind", ["0x010802", "0x030200", "garbage", ""])
def test_what_is_no_network_card_is_passed_over(machine: Machine, kind: str) -> None:
    machine.device("hfi1_0", machine.function("0000:3b:00.0", kind))
    assert machine.devices() == {}


def test_devices_of_software_and_sub_functions_are_passed_over(machine: Machine) -> None:
    machine.tree.texts[f"{CLASS}/rxe0/ports/1/state"] = "4: ACTIVE\n"
    machine.device("mlx5_4", f"{machine.function('0000:3b:00.0')}/mlx5_core.sf.4")
    assert machine.collect() == Samples(infos=(RDMADevices(()),))
    machine.tree = TextTree()
    line = "/sys/class/infiniband is not there: no driver of an RDMA device is loaded"
    assert machine.collect() == Samples(infos=(RDMADevices(()),), partial=(line,))


def test_domains_beyond_four_digits_no_root_complex_and_no_numa_node(machine: Machine) -> None:
    vmd = machine.function("10000:01:00.0", above="pci0000:00/0000:00:1d.0/pci10000:00")
    machine.device("mlx5_0", vmd)
    infiniband = machine.function("0000:02:00.0", "0x020700", node="-1", above="platform")
    machine.device("mlx5_1", infiniband)
    assert {bus: (one.pcie, one.numa_node) for bus, one in machine.devices().items()} == {
        "10000:01:00.0": ("pci0000:00", 1),
        "0000:02:00.0": ("", 0),
    }


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("numa_node", "garbage\n", "RDMA device mlx5_0 at 0000:3b:00.0: invalid literal"),
        ("numa_node", OSError(errno.EIO, "Input/output error"), "Input/output error (left out)"),
        ("infiniband/mlx5_0/ports/1/state", OSError(errno.EIO, "Input/output error"), "left out"),
    ],
)
def test_garbage_costs_the_device_and_says_so(
    machine: Machine, file: str, text: str | OSError, said: str
) -> None:
    machine.device("mlx5_0", machine.function("0000:3b:00.0"))
    machine.device("mlx5_1", machine.function("0000:5e:00.0"))
    machine.tree.texts[f"{PCI}/0000:3b:00.0/{file}"] = text
    card = machine.tree.resolve(f"{PCI}/0000:3b:00.0")
    machine.tree.texts[f"{card}/{file}"] = text
    found = machine.collect()
    [info] = found.infos
    assert isinstance(info, RDMADevices)
    assert [one.id for one in info.devices] == ["0000:5e:00.0"]
    assert not info.whole
    assert len(found.partial) == 1
    assert said in found.partial[0]


class Vanishing(TextTree):
    """A tree from which a card is taken away after so many readings."""

    def __init__(self, whole: TextTree, card: str, after: int) -> None:
        super().__init__(whole.texts, whole.links)
        self.card, self.after = card, after

    def _followed(self, path: str) -> str:
        self.after -= 1
        if self.after == 0:
            self.remove(self.card)
        return super()._followed(path)


@pytest.mark.parametrize("after", range(1, 40))
def test_a_card_taken_away_at_any_moment_costs_itself(machine: Machine, after: int) -> None:
    card = machine.function("0000:3b:00.0")
    machine.device("mlx5_0", card)
    machine.virtual(card, 0, "0000:3b:00.2")
    machine.device("mlx5_1", machine.function("0000:5e:00.0"))
    machine.tree = Vanishing(machine.tree, card, after)
    assert "0000:5e:00.0" in machine.devices()


def test_real_links_lead_where_the_kernels_do(tmp_path: Path) -> None:
    card = tmp_path / "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    (card / "infiniband/mlx5_0/ports/1").mkdir(parents=True)
    (card / "infiniband/mlx5_0/ports/1/state").write_text("4: ACTIVE\n")
    (card / "class").write_text("0x020000\n")
    (card / "numa_node").write_text("0\n")
    (card / "infiniband/mlx5_0/device").symlink_to("../..")
    for above, name in (("class/infiniband", "mlx5_0"), ("bus/pci/devices", "0000:3b:00.0")):
        (tmp_path / above).mkdir(parents=True)
        target = card / "infiniband/mlx5_0" if name == "mlx5_0" else card
        (tmp_path / above / name).symlink_to(target)
    sources = CollectorSources(KernelFilesystem(), V2, sys_root=str(tmp_path))
    (info,) = rdma.Collector(sources).collect(CollectContext(0.0, 0.0)).infos
    assert isinstance(info, RDMADevices)
    (device,) = info.devices
    assert (device.id, device.pcie, device.healthy) == ("0000:3b:00.0", "pci0000:3a", True)
