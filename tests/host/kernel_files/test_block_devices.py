"""Names and mounts of block devices; reading them is tested with nodestorageinfo."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.block_devices import BlockDevice, disks, mounts, volume_group

LVM_NAME = st.from_regex(r"[a-zA-Z0-9_.+][a-zA-Z0-9_.+-]{0,8}", fullmatch=True)
DEVICES = {
    "vda": BlockDevice("/dev/vda", "254:0"),
    "vda1": BlockDevice("/dev/vda1", "254:1", ("vda",)),
    "vdb": BlockDevice("/dev/vdb", "254:16"),
    "dm-0": BlockDevice("/dev/mapper/a-b", "252:0", ("vda1", "vdb"), "a"),
}


@given(LVM_NAME, LVM_NAME)
def test_the_volume_group_is_found_whatever_its_name(group: str, volume: str) -> None:
    mapped = f"{group.replace('-', '--')}-{volume.replace('-', '--')}"
    assert volume_group(mapped) == group


@pytest.mark.parametrize(
    ("mapped", "group"),
    [
        ("vg-lv", "vg"),
        ("yoda--pool0-yoda--2c52", "yoda-pool0"),
        ("vg---lv", "vg-"),
        ("vg-thin-tpool", "vg"),
        ("plain", "plain"),
    ],
)
def test_volume_group(mapped: str, group: str) -> None:
    assert volume_group(mapped) == group


def test_what_lies_at_the_bottom() -> None:
    assert disks(DEVICES, "vda1") == {"vda"}
    assert disks(DEVICES, "vdb") == {"vdb"}
    assert disks(DEVICES, "dm-0") == {"vda", "vdb"}
    # Devices that lie on each other lie on nothing.
    loop = {"a": BlockDevice("/x", "252:0", ("b",)), "b": BlockDevice("/y", "252:1", ("a",))}
    assert disks(loop, "a") == frozenset()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw", {"/": "254:1"}),
        ("27 1 254:1 /a /b rw master:1 propagate_from:2 - ext4 /dev/vda1 rw,x=1", {"/b": "254:1"}),
        (r"27 1 254:1 / /a\040b\134c rw - ext4 /dev/vda1 rw", {"/a b\\c": "254:1"}),
        ("27 1 0:41 /@ /data rw shared:3 - btrfs /dev/vdb rw", {"/data": "254:16"}),
        ("27 1 0:41 / /net rw - nfs4 server:/dev/vdb rw", {}),
        ("27 1 0:21 / /proc rw,relatime - proc proc rw", {}),
        ("27 1 254:1 / /odd rw - ext4  rw", {"/odd": "254:1"}),
        ("27 1 254:1 / /cut rw", {}),
        ("", {}),
    ],
)
def test_a_mount(line: str, expected: dict[str, str]) -> None:
    assert mounts(f"{line}\n", DEVICES) == expected


def test_the_last_mount_on_a_point_hides_the_others() -> None:
    first = "27 1 254:1 / /a rw - ext4 /dev/vda1 rw\n"
    second = "28 27 254:16 / /a rw - ext4 /dev/vdb rw\n"
    hiding = "29 28 0:50 / /a rw - tmpfs tmpfs rw\n"
    assert mounts(first + second, DEVICES) == {"/a": "254:16"}
    assert mounts(first + second + hiding, DEVICES) == {}


@given(st.text(alphabet=" -\\0127:/\nabc", max_size=80))
def test_no_text_does_harm(text: str) -> None:
    assert set(mounts(text, DEVICES).values()) <= {one.number for one in DEVICES.values()}
