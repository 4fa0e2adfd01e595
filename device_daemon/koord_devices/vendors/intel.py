"""Intel's GPUs: what sysfs says; xpu-smi, where it is installed, knows model, memory and driver.

A GPU is named by its PCI address: early versions of xpu-smi print one UUID for all GPUs of a model.
The graphics of the processor itself, which is function 00:02.0, does not count as an accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from koord_host.devices import pci
from koord_host.devices.pci import PCIFunction
from koord_model.keys import GPU_CORE, GPU_MEMORY
from koord_model.node_info import SchedulableDevice

from koord_devices.contract import NodeAccess
from koord_devices.core.accelerator import Accelerator
from koord_devices.core.tool_output import OutputError, at, decode, memory, number, objects
from koord_devices.placement import placed, render_minor

_VENDOR, _DISPLAY, _OF_THE_PROCESSOR = "8086", "03", "00:02.0"


@dataclass(frozen=True, slots=True)
class IntelDevice:
    """An entry of ``xpu-smi discovery -j``."""

    number: int
    bus: str
    model: str


class Vendor:
    """Reads sysfs, and asks xpu-smi for the rest."""

    def owns(self, function: PCIFunction) -> bool:
        """True if it is a GPU of its own, not part of the processor."""
        return (
            function.vendor == _VENDOR
            and function.pci_class.startswith(_DISPLAY)
            and not function.address.endswith(_OF_THE_PROCESSOR)
        )

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        """All GPUs on the bus."""
        known: Mapping[str, IntelDevice] = {}
        if node.has("xpu-smi"):
            found = discovered(node.run("xpu-smi", "discovery", "-j"))
            known = {pci.address(entry.bus): entry for entry in found}
        return [
            _accelerator(node, index, function, known.get(function.address))
            for index, function in enumerate(functions)
        ]


def _accelerator(
    node: NodeAccess, index: int, function: PCIFunction, said: IntelDevice | None
) -> Accelerator:
    size, driver, model = 0, "", f"Intel-{function.device}"
    if said is not None:
        size, driver = detail(node.run("xpu-smi", "discovery", "-d", str(said.number), "-j"))
        model = said.model or model
    minor = render_minor(node, function.address)
    device = SchedulableDevice(
        type="gpu",
        id=f"intel-{function.address}",
        minor=index if minor is None else minor,
        resources={GPU_CORE: 100, GPU_MEMORY: size},
        bus=function.address,
    )
    there, details = placed(device, node)
    return Accelerator(there, "intel", model, driver, (), details)


def discovered(text: str) -> Iterator[IntelDevice]:
    """The physical GPUs that ``xpu-smi discovery -j`` lists.

    Raises:
        OutputError: the text is not such a list.
    """
    for entry in objects(text, "device_list"):
        index = number(at(entry, "device_id"))
        bus = at(entry, "pci_bdf_address")
        if index is not None and bus and at(entry, "device_function_type") != "virtual":
            yield IntelDevice(index, bus, at(entry, "device_name"))


def detail(text: str) -> tuple[int, str]:
    """Bytes of memory and the driver's version, of ``xpu-smi discovery -d N -j``.

    Raises:
        OutputError: the text is not a JSON object.
    """
    given = decode(text)
    if not isinstance(given, Mapping):
        raise OutputError("it printed no JSON object")
    return memory(at(given, "memory_physical_size_byte")), at(given, "driver_version")
