"""Block devices as sysfs has them, and what is mounted from them.

Names of LVM's volumes are those of the device mapper, by the rules of dmsetup(8): the
volume group, "-", the volume, with every "-" of theirs doubled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from koord_host.kernel_files.interface import FileTree

_LVM = "LVM-"
_OCTAL = re.compile(r"\\([0-7]{3})")
# More layers than anyone stacks; a loop of them would be a defect.
_LAYERS = 16


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A device: where it is, its number ("253:16"), and the kernel names of what it lies on.

    ``volume_group`` is LVM's, "" if it is not a logical volume.
    """

    path: str
    number: str
    below: tuple[str, ...] = ()
    volume_group: str = ""


def read(tree: FileTree, sys_root: str = "/sys") -> dict[str, BlockDevice]:
    """All block devices by kernel name; those that go meanwhile are left out.

    Raises:
        OSError: the directory does not exist, or it cannot be read.
    """
    root = f"{sys_root}/class/block"
    found = {}
    for name in tree.names(root):
        try:
            found[name] = _device(tree, f"{root}/{name}", name)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def _device(tree: FileTree, directory: str, name: str) -> BlockDevice:
    number = tree.read(f"{directory}/dev").strip()
    below: tuple[str, ...] = ()
    if tree.exists(f"{directory}/partition"):
        below = (tree.resolve(directory).split("/")[-2],)
    elif tree.exists(f"{directory}/slaves"):
        below = tuple(_names(tree, f"{directory}/slaves"))
    mapped = _text(tree, f"{directory}/dm/name")
    if not mapped:
        # The kernel writes "!" for the "/" of names such as "cciss/c0d0".
        return BlockDevice(f"/dev/{name.replace('!', '/')}", number, below)
    lvm = _text(tree, f"{directory}/dm/uuid").startswith(_LVM)
    return BlockDevice(f"/dev/mapper/{mapped}", number, below, volume_group(mapped) if lvm else "")


def disks(devices: Mapping[str, BlockDevice], name: str) -> frozenset[str]:
    """The kernel names of what a device lies on at the bottom: itself, if on nothing."""
    found: set[str] = set()
    layer = {name}
    for _ in range(_LAYERS):
        lower: set[str] = set()
        for upper in layer:
            device = devices.get(upper)
            if device is not None and device.below:
                lower.update(device.below)
            else:
                found.add(upper)
        layer = lower
    return frozenset(found)


def volume_group(mapped: str) -> str:
    """The volume group of a logical volume's name in the device mapper ("a--b-c": "a-b")."""
    return mapped.replace("--", "\0").partition("-")[0].replace("\0", "-")


def mounts(text: str, devices: Mapping[str, BlockDevice]) -> dict[str, str]:
    """The device numbers of what a mountinfo file says is mounted from these devices.

    Of several mounts on one point the last one counts: it hides the others. Btrfs has
    numbers of its own; its path names its device.
    """
    numbers = {device.number for device in devices.values()}
    by_path = {device.path: device.number for device in devices.values()}
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split(" ")
        # Between the mount's options and " - " is any number of optional words.
        if len(words) < 10 or "-" not in words[6:-3]:
            continue
        point, dash = _unescaped(words[4]), words.index("-", 6)
        number = words[2]
        if number not in numbers:
            number = by_path.get(_unescaped(words[dash + 2]), "")
        found.pop(point, None)
        if number:
            found[point] = number
    return found


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text) if "\\" in text else text


def _names(tree: FileTree, directory: str) -> list[str]:
    try:
        return tree.names(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _text(tree: FileTree, path: str) -> str:
    try:
        return tree.read(path).strip()
    except FileNotFoundError:
        return ""
