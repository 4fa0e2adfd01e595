"""Disks, volumes and mounts, from sysfs and mountinfo."""

from __future__ import annotations

from pathlib import Path

import pytest
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_info import LocalStorage
from koordlet.metrics_advisor.collectors import nodestorageinfo
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

from tests.support.text_tree import TextTree

LAYOUT = Layout(2, Driver.SYSTEMD)
LOOK = CollectContext(0.0, 0.0)
ROOT = "27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
VOLUME = "/var/lib/kubelet/pods/u1/volumes/kubernetes.io~csi/pvc-1/mount"
MOUNTINFO = f"{ROOT}40 27 252:0 / {VOLUME} rw shared:9 - xfs /dev/mapper/pool--a-data--1 rw\n"


class Machine:
    """Block devices as sysfs lays them out."""

    def __init__(self) -> None:
        self.tree = TextTree({"/proc/1/mountinfo": MOUNTINFO})

    def add(self, name: str, number: str, place: str = "", **files: str) -> None:
        directory = f"/sys/devices/{place or name}"
        self.tree.links[f"/sys/class/block/{name}"] = directory
        self.tree.texts[f"{directory}/dev"] = f"{number}\n"
        for file, text in files.items():
            self.tree.texts[f"{directory}/{file.replace('__', '/')}"] = f"{text}\n"

    def mapped(self, name: str, number: str, mapped: str, uuid: str, *slaves: str) -> None:
        self.add(name, number, dm__name=mapped, dm__uuid=uuid)
        for slave in slaves:
            self.tree.links[f"/sys/devices/{name}/slaves/{slave}"] = f"/sys/devices/{slave}"

    def collect(self) -> Samples:
        return nodestorageinfo.Collector(CollectorSources(self.tree, LAYOUT)).collect(LOOK)


def storage(found: Samples) -> LocalStorage:
    (fact,) = found.facts
    assert isinstance(fact, LocalStorage)
    return fact


@pytest.fixture
def machine() -> Machine:
    """Two disks: one with partitions, one with a volume group."""
    machine = Machine()
    machine.add("vda", "254:0", "pci/vda")
    machine.add("vda1", "254:1", "pci/vda/vda1", partition="1")
    machine.add("vdb", "254:16")
    machine.mapped("dm-0", "252:0", "pool--a-data--1", "LVM-abc", "vdb")
    return machine


def test_disks_partitions_and_volumes(machine: Machine) -> None:
    found = machine.collect()
    assert storage(found) == LocalStorage(
        numbers={
            "/dev/vda": "254:0",
            "/dev/vda1": "254:1",
            "/dev/vdb": "254:16",
            "/dev/mapper/pool--a-data--1": "252:0",
        },
        parents={"/dev/vda1": "/dev/vda", "/dev/mapper/pool--a-data--1": "/dev/vdb"},
        volume_groups={"pool-a": "/dev/vdb"},
        mounts={"/": "254:1", VOLUME: "252:0"},
    )
    assert found.partial == ()


def test_a_thin_volume_lies_on_the_disk_below_its_pool(machine: Machine) -> None:
    machine.mapped("dm-1", "252:1", "thin-pool_tdata", "LVM-1-tdata", "vda1")
    machine.mapped("dm-2", "252:2", "thin-pool-tpool", "LVM-2-tpool", "dm-1")
    machine.mapped("dm-3", "252:3", "thin-data", "LVM-3", "dm-2")
    found = storage(machine.collect())
    assert found.parents["/dev/mapper/thin-data"] == "/dev/vda"
    assert found.volume_groups == {"pool-a": "/dev/vdb", "thin": "/dev/vda"}


def test_a_group_on_several_disks_has_none_of_its_own(machine: Machine) -> None:
    machine.mapped("dm-1", "252:1", "wide-a", "LVM-1", "vda1")
    machine.mapped("dm-2", "252:2", "wide-b", "LVM-2", "vdb")
    found = machine.collect()
    assert "wide" not in storage(found).volume_groups
    assert storage(found).parents["/dev/mapper/wide-a"] == "/dev/vda"
    assert found.partial == (
        (
            "volume group wide lies on 2 disks (/dev/vda, /dev/vdb): "
            "its volumes have no disk of their own"
        ),
    )


def test_mapped_devices_that_are_not_lvm_s_have_no_group(machine: Machine) -> None:
    machine.mapped("dm-1", "252:1", "crypt-home", "CRYPT-LUKS2-1", "vda1")
    machine.mapped("dm-2", "252:2", "mpath-a", "mpath-1", "vda", "vdb")
    found = machine.collect()
    assert storage(found).volume_groups == {"pool-a": "/dev/vdb"}
    assert storage(found).parents["/dev/mapper/crypt-home"] == "/dev/vda"
    assert "/dev/mapper/mpath-a" not in storage(found).parents
    assert found.partial == ()


def test_a_slash_in_a_name(machine: Machine) -> None:
    machine.add("cciss!c0d0", "104:0")
    assert storage(machine.collect()).numbers["/dev/cciss/c0d0"] == "104:0"


def test_a_disk_that_goes_meanwhile_is_left_out(machine: Machine) -> None:
    machine.tree.texts["/sys/devices/vdb/dev"] = FileNotFoundError(2, "gone")
    found = machine.collect()
    assert "/dev/vdb" not in storage(found).numbers
    assert "/dev/mapper/pool--a-data--1" not in storage(found).parents
    assert storage(found).volume_groups == {}
    assert found.partial == ()


def test_own_mounts_where_those_of_the_host_are_not_to_be_read(machine: Machine) -> None:
    machine.tree.texts["/proc/1/mountinfo"] = PermissionError(13, "Permission denied")
    machine.tree.texts["/proc/self/mountinfo"] = ROOT
    assert storage(machine.collect()).mounts == {"/": "254:1"}


@pytest.mark.parametrize("path", ["/proc/1/mountinfo", "/sys/class/block"])
def test_nothing_to_read(machine: Machine, path: str) -> None:
    machine.tree.remove(path)
    with pytest.raises(UnavailableError, match=r"the machine's disks: .*No such file"):
        machine.collect()


@pytest.mark.skipif(not Path("/sys/class/block").exists(), reason="no block devices here")
def test_this_machine() -> None:
    found = storage(
        nodestorageinfo.Collector(CollectorSources(KernelFilesystem(), LAYOUT)).collect(LOOK)
    )
    for path, number in found.numbers.items():
        name = path.removeprefix("/dev/").replace("/", "!")
        if not name.startswith("mapper!"):
            text = Path(f"/sys/class/block/{name}/dev").read_text(encoding="ascii")
            assert text.strip() == number
    assert set(found.mounts.values()) <= set(found.numbers.values())
