"""Disks, volumes and mounts, from sysfs and mountinfo."""

from __future__ import annotations

from dataclasses import replace
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
    (info,) = found.infos
    assert isinstance(info, LocalStorage)
    return info


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.add("vda", "254:0", "pci/vda")
    machine.add("vda1", "254:1", "pci/vda/vda1", partition="1")
    machine.add("vdb", "254:16")
    machine.add("cciss!c0d0", "104:0")
    machine.mapped("dm-0", "252:0", "pool--a-data--1", "LVM-abc", "vdb")
    return machine


# Of each mapped device, what is known of its disk.
MAPPED = {
    ("thin-pool_tdata", "LVM-1-tdata", "vda1"): "/dev/vda",
    ("thin-pool-tpool", "LVM-2-tpool", "dm-1"): "/dev/vda",
    ("thin-data", "LVM-3", "dm-2"): "/dev/vda",
    ("wide-a", "LVM-4", "vda1"): "/dev/vda",
    ("wide-b", "LVM-5", "vdb"): "/dev/vdb",
    ("crypt-home", "CRYPT-LUKS2-1", "vda1"): "/dev/vda",
    ("mpath-a", "mpath-1", "vda", "vdb"): None,
}


def test_volume_groups_are_lvms_on_one_disk(machine: Machine) -> None:
    for number, (name, uuid, *slaves) in enumerate(MAPPED, 1):
        machine.mapped(f"dm-{number}", f"252:{number}", name, uuid, *slaves)
    found = machine.collect()
    of = storage(found)
    assert of.volume_groups == {"pool-a": "/dev/vdb", "thin": "/dev/vda"}
    disks = {name: of.parents.get(f"/dev/mapper/{name}") for name, *_ in MAPPED}
    assert disks == {name: disk for (name, *_), disk in MAPPED.items()}
    [line] = found.partial
    assert line.startswith("volume group wide lies on 2 disks (/dev/vda, /dev/vdb)")


def test_disks_partitions_and_volumes(machine: Machine) -> None:
    found = machine.collect()
    expected = LocalStorage(
        numbers={
            "/dev/vda": "254:0",
            "/dev/vda1": "254:1",
            "/dev/vdb": "254:16",
            "/dev/cciss/c0d0": "104:0",
            "/dev/mapper/pool--a-data--1": "252:0",
        },
        parents={"/dev/vda1": "/dev/vda", "/dev/mapper/pool--a-data--1": "/dev/vdb"},
        volume_groups={"pool-a": "/dev/vdb"},
        mounts={"/": "254:1", VOLUME: "252:0"},
    )
    assert (storage(found), found.partial) == (expected, ())
    machine.tree.texts["/proc/1/mountinfo"] = PermissionError(13, "Permission denied")
    machine.tree.texts["/proc/self/mountinfo"] = ROOT
    assert storage(machine.collect()) == replace(expected, mounts={"/": "254:1"}), "its own mounts"


def test_a_disk_that_goes_meanwhile_is_left_out(machine: Machine) -> None:
    machine.tree.texts["/sys/devices/vdb/dev"] = FileNotFoundError(2, "gone")
    found = machine.collect()
    assert "/dev/vdb" not in storage(found).numbers
    assert "/dev/mapper/pool--a-data--1" not in storage(found).parents
    assert storage(found).volume_groups == {}
    assert found.partial == ()


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
