"""Location of an accelerator in the machine. Reads sysfs through the node it is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koord_host.devices import pci
from koord_model.node_info import SchedulableDevice

from koord_devices.contract import NodeAccess


def placed(device: SchedulableDevice, node: NodeAccess) -> tuple[SchedulableDevice, dict[str, Any]]:
    """The device with its place, by its ``bus`` as a tool spells it; and details for people.

    Without a place if sysfs does not know it, such as in a virtual machine's pass-through.
    """
    address = pci.address(device.bus) if device.bus else ""
    if not pci.is_address(address):
        return replace(device, bus=""), {}
    try:
        location = pci.place(node.tree, node.sys_root, address)
    except (OSError, ValueError):
        return replace(device, bus=address), {}
    details = {"pcieSwitch": location.switch} if location.switch else {}
    there = replace(device, bus=address, numa_node=location.numa_node, pcie=location.pcie)
    return there, details


def render_minor(node: NodeAccess, address: str) -> int | None:
    """N of /dev/dri/renderD(128+N), which a DRM driver gave to a PCI function."""
    try:
        names = node.tree.names(f"{pci.directory(node.sys_root, address)}/drm")
    except OSError:
        return None
    numbers = [name.removeprefix("renderD") for name in names if name.startswith("renderD")]
    return int(numbers[0]) - 128 if numbers and numbers[0].isdigit() else None
