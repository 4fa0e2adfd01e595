"""Kunlunxin's XPUs: ``xpu_smi -m``, which prints a row of numbers for each.

Column 1 is the PCI address, 2 N of /dev/xpuN, 4 the serial number, 19 the memory in MiB, 21 the
firmware, 22 the model, which is quoted where it has a blank.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from koord_host.devices.pci import PCIFunction
from koord_model.keys import GPU_CORE, GPU_MEMORY
from koord_model.node_info import SchedulableDevice

from koord_devices.contract import NodeAccess
from koord_devices.core.accelerator import Accelerator
from koord_devices.core.tool_output import OutputError, lines, memory, number
from koord_devices.placement import placed

_VENDOR = "1d22"


@dataclass(frozen=True, slots=True)
class Row:
    """The part of a row that an inventory needs."""

    bus: str
    minor: int
    serial: str
    memory: int
    model: str


class Vendor:
    """Asks xpu_smi."""

    def owns(self, function: PCIFunction) -> bool:
        """True if it is an XPU, and no bridge."""
        return function.vendor == _VENDOR and not function.pci_class.startswith("06")

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        """All rows."""
        rows = list(rows_of(node.run("xpu_smi", "-m")))
        if not rows:
            raise OutputError("xpu_smi -m lists no XPU")
        return [_accelerator(node, row) for row in rows]


def _accelerator(node: NodeAccess, row: Row) -> Accelerator:
    device = SchedulableDevice(
        type="gpu",
        id=f"xpu-{row.minor}",
        minor=row.minor,
        resources={GPU_CORE: 100, GPU_MEMORY: row.memory},
        bus=row.bus,
    )
    there, details = placed(device, node)
    if row.serial:
        details["serialNumber"] = row.serial
    return Accelerator(there, "kunlun", row.model, "", (), details)


def rows_of(text: str) -> Iterator[Row]:
    """The rows that are XPUs; a line that is none is skipped."""
    for line in lines(text):
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        minor = number(words[1]) if len(words) >= 22 else None
        if minor is None or words[0].count(":") not in (1, 2):
            continue
        yield Row(words[0], minor, words[3], memory(words[18], "M"), words[21].replace(" ", "-"))
