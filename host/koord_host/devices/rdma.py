"""RDMA devices, by whatever driver, as sysfs shows them. No IO of its own.

Sources: ``/sys/class/infiniband/*``, whose ``device`` leads to the PCI device; of that
``class`` (0x02…: network), ``numa_node``, ``physfn`` (a virtual function has it) and
``virtfn*`` (its virtual functions); and ``ports/*/state``.

A device is one PCI function with all its RDMA devices, and healthy while every port is
ACTIVE. Its minor is M of "mlxN_M", as in Koordinator; other drivers name devices
otherwise, and those get the smallest numbers that are left, in the order of addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from koord_model.keys import RDMA
from koord_model.node_info import RDMADevices, SchedulableDevice, VirtualFunctions

from koord_host.devices import pci
from koord_host.kernel_files.interface import FileTree

_NETWORK = "0x02"
_MELLANOX = re.compile(r"mlx[0-9]+_([0-9]{1,6})")


class RDMAReader:
    """Reads sysfs, which is mounted at ``sys_root``."""

    def __init__(self, tree: FileTree, sys_root: str = "/sys") -> None:
        self._tree = tree
        self._sys_root = sys_root
        self._class = f"{sys_root}/class/infiniband"

    def read(self) -> tuple[RDMADevices, tuple[str, ...]]:
        """All complete devices, and lines about what could not be read.

        One that vanishes meanwhile is left out.
        """
        try:
            names = self._tree.names(self._class)
        except OSError:
            line = f"{self._class} is not there: no driver of an RDMA device is loaded"
            return RDMADevices(()), (line,)
        partial: list[str] = []
        by_bus: dict[str, list[str]] = {}
        for name, bus in self._functions(names):
            by_bus.setdefault(bus, []).append(name)
        minors = _minors(by_bus)
        devices = []
        for bus, named in sorted(by_bus.items()):
            try:
                devices.append(self._device(bus, named, minors[bus]))
            except FileNotFoundError:
                continue  # it is being taken away
            except (OSError, ValueError) as error:
                partial.append(f"RDMA device {named[0]} at {bus}: {error} (left out)")
        return RDMADevices(tuple(devices), whole=not partial), tuple(partial)

    def _functions(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """RDMA devices that are physical functions of network cards, and their addresses."""
        for name in sorted(names):
            try:
                # A device made of software leads nowhere, a sub-function to no PCI address.
                bus = self._tree.resolve(f"{self._class}/{name}/device").rpartition("/")[2]
                where = pci.directory(self._sys_root, bus)
                if not pci.is_address(bus) or self._tree.exists(f"{where}/physfn"):
                    continue
                if self._tree.read(f"{where}/class").startswith(_NETWORK):
                    yield name, bus
            except OSError:
                continue  # it is being taken away

    def _device(self, bus: str, names: list[str], minor: int) -> SchedulableDevice:
        place = pci.place(self._tree, self._sys_root, bus)
        down = [line for name in names for line in self._down(name)]
        functions = self._virtual_functions(bus)
        return SchedulableDevice(
            type="rdma",
            id=bus,
            minor=minor,
            resources={RDMA: 100},
            healthy=not down,
            reason="PortNotActive" if down else "",
            message=", ".join(down),
            numa_node=place.numa_node,
            pcie=place.pcie,
            bus=bus,
            virtual_functions=(VirtualFunctions(functions),) if functions else (),
        )

    def _down(self, name: str) -> Iterator[str]:
        """Describe the problems of a device's ports."""
        ports = f"{self._class}/{name}/ports"
        try:
            numbers = self._tree.names(ports)
        except OSError:
            numbers = []
        if not numbers:
            yield f"{name} has no port"
        for number in numbers:
            state = self._tree.read(f"{ports}/{number}/state").strip()  # "4: ACTIVE"
            if state.rpartition(":")[2].strip() != "ACTIVE":
                yield f"port {number} of {name} is {state or 'in no state'}"

    def _virtual_functions(self, bus: str) -> tuple[str, ...]:
        where = pci.directory(self._sys_root, bus)
        links = (name for name in self._tree.names(where) if name.startswith("virtfn"))
        found = (self._tree.resolve(f"{where}/{name}").rpartition("/")[2] for name in links)
        return tuple(sorted(found))


def _minors(by_bus: dict[str, list[str]]) -> dict[str, int]:
    """A number of its own for each device."""
    minors: dict[str, int] = {}
    for bus, names in sorted(by_bus.items()):
        match = _MELLANOX.fullmatch(min(names, key=_by_number))
        if match and int(match[1]) not in minors.values():
            minors[bus] = int(match[1])
    left = (number for number in range(2 * len(by_bus)) if number not in minors.values())
    return {bus: minors[bus] if bus in minors else next(left) for bus in sorted(by_bus)}


def _by_number(name: str) -> tuple[int, str]:
    match = _MELLANOX.fullmatch(name)
    return (int(match[1]) if match else 1 << 20, name)
