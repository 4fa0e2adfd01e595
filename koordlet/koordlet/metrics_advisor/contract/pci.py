"""Where a PCI device is in the machine, as sysfs shows it. No IO of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from koord_host.kernel_files.interface import FileTree

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT_COMPLEX = re.compile(r"/(pci[0-9a-f]{4,8}:[0-9a-f]{2})/")


@dataclass(frozen=True, slots=True)
class PCILocation:
    """A device's NUMA node and PCIe root complex ("pci0000:80")."""

    numa_node: int
    pcie: str


def directory(sys_root: str, bus: str) -> str:
    """The directory of the device with this address."""
    return f"{sys_root}/bus/pci/devices/{bus}"


def is_address(name: str) -> bool:
    """Whether a name is a PCI address as sysfs spells it: "0000:3b:00.2"."""
    return _ADDRESS.fullmatch(name) is not None


def address(spelled: str) -> str:
    """A PCI address as sysfs spells it; drivers write "00000000:3B:00.0" or "3B:00.0"."""
    parts = spelled.lower().split(":")
    domain = int(parts[0], 16) if len(parts) == 3 and _is_hex(parts[0]) else 0
    return ":".join([f"{domain:04x}", *parts[-2:]])


def place(tree: FileTree, sys_root: str, bus: str) -> PCILocation:
    """Where a device is.

    Firmware that reports no NUMA node (-1) means the first, as Koordinator reads it.

    Raises:
        OSError: the device is gone.
        ValueError: its files hold garbage.
    """
    where = directory(sys_root, bus)
    root_complex = _ROOT_COMPLEX.search(tree.resolve(where))
    node = int(tree.read(f"{where}/numa_node"))
    return PCILocation(max(node, 0), root_complex[1] if root_complex else "")


def _is_hex(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]+", text) is not None
