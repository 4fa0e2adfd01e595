"""Locations of PCI devices in the machine, from sysfs. No IO of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from koord_host.kernel_files.interface import FileTree

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT_COMPLEX = re.compile(r"/(pci[0-9a-f]{4,8}:[0-9a-f]{2})/")


@dataclass(frozen=True, slots=True)
class PCILocation:
    """A device's NUMA node, PCIe root complex ("pci0000:80"), and the switch that it is behind.

    ``switch`` is the address of the switch's upstream port; "" for a device at a root port.
    """

    numa_node: int
    pcie: str
    switch: str = ""


@dataclass(frozen=True, slots=True)
class PCIFunction:
    """A function on the PCI bus; vendor, device and class as hexadecimal digits without "0x".

    ``virtual`` is one that its physical function made.
    """

    address: str
    vendor: str
    device: str
    pci_class: str
    virtual: bool = False


def functions(tree: FileTree, sys_root: str) -> Iterator[PCIFunction]:
    """All functions, in the order of their addresses; one that is just being removed is left out.

    Raises:
        OSError: there is no PCI bus.
    """
    for name in tree.names(f"{sys_root}/bus/pci/devices"):
        where = directory(sys_root, name)
        try:
            vendor, device, of_class = (
                tree.read(f"{where}/{field}").strip().removeprefix("0x").lower()
                for field in ("vendor", "device", "class")
            )
        except OSError:
            continue
        virtual = tree.exists(f"{where}/physfn")
        yield PCIFunction(name, vendor, device, of_class, virtual)


def directory(sys_root: str, bus: str) -> str:
    """The directory of the device with this address."""
    return f"{sys_root}/bus/pci/devices/{bus}"


def is_address(name: str) -> bool:
    """True if a name is a PCI address as sysfs spells it: "0000:3b:00.2"."""
    return _ADDRESS.fullmatch(name) is not None


def address(spelled: str) -> str:
    """A PCI address as sysfs spells it; drivers write "00000000:3B:00.0" or "3B:00.0"."""
    parts = spelled.lower().split(":")
    domain = int(parts[0], 16) if len(parts) == 3 and _is_hex(parts[0]) else 0
    return ":".join([f"{domain:04x}", *parts[-2:]])


def place(tree: FileTree, sys_root: str, bus: str) -> PCILocation:
    """Return the location of a device.

    Firmware that reports no NUMA node (-1) means the first, as Koordinator reads it.

    Raises:
        OSError: the device is gone.
        ValueError: its files hold garbage.
    """
    where = directory(sys_root, bus)
    resolved = tree.resolve(where)
    root_complex = _ROOT_COMPLEX.search(resolved)
    node = int(tree.read(f"{where}/numa_node"))
    return PCILocation(max(node, 0), root_complex[1] if root_complex else "", _switch(resolved))


def _switch(resolved: str) -> str:
    """The last switch on the way: below the root port, its upstream port has the downstream one."""
    bridges = [part for part in resolved.split("/")[:-1] if is_address(part)]
    return bridges[-2] if len(bridges) >= 3 else ""


def _is_hex(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]+", text) is not None
