"""MetaX's GPUs: mx-smi.

One that it lists as "Not Available" it does not name: that one keeps the name it had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from koord_host.devices.pci import PCIFunction
from koord_model.keys import GPU_CORE, GPU_MEMORY
from koord_model.node_info import SchedulableDevice

from koord_devices.contract import NodeAccess, ToolError
from koord_devices.core.accelerator import Accelerator, DeviceLink
from koord_devices.core.linked_groups import links
from koord_devices.core.tool_output import (
    OutputError,
    fields,
    lines,
    link_matrix,
    memory,
    number,
    pairs,
)
from koord_devices.placement import placed

_VENDOR = "9999"
_LISTED = re.compile(
    r"^GPU#([0-9]{1,4})\s+(\S+)\s+([0-9a-fA-F:.]+)\s+(Available|Not Available)\s*(?:\((.*)\))?"
)
_GPU = re.compile(r"^GPU#([0-9]{1,4})\b")
_UNCORRECTABLE = ("SRAM Uncorrectable", "DRAM Uncorrectable", "Double Bit ECC")


@dataclass(frozen=True, slots=True)
class ListedGPU:
    """A line of ``mx-smi -L``; without a UUID, why it is not available."""

    minor: int
    chip: str
    bus: str
    uuid: str
    why: str


class Vendor:
    """Asks mx-smi."""

    def owns(self, function: PCIFunction) -> bool:
        """True if it is a GPU, and no bridge."""
        return function.vendor == _VENDOR and not function.pci_class.startswith("06")

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        """All GPUs; parts of one (SGPU) are none."""
        listed = list(listed_gpus(node.run("mx-smi", "-L")))
        if not listed:
            raise OutputError("mx-smi -L lists no GPU")
        hardware = by_gpu(node.run("mx-smi", "--show-hwinfo"))
        errors = by_gpu(node.run("mx-smi", "--count-ecc"))
        versions = by_gpu(node.run("mx-smi", "--show-version"))
        linked = _links(node)
        return [
            _accelerator(
                node,
                gpu,
                hardware.get(gpu.minor, ""),
                uncorrectable(errors.get(gpu.minor, "")),
                fields(versions.get(gpu.minor, "")).get("KMD", ""),
                linked.get(gpu.minor, ()),
            )
            for gpu in listed
        ]


def _accelerator(
    node: NodeAccess,
    gpu: ListedGPU,
    hardware: str,
    errors: int,
    driver: str,
    linked: tuple[DeviceLink, ...],
) -> Accelerator:
    reason, message = "", ""
    if gpu.why:
        reason, message = "NotAvailable", f"mx-smi says not available: {gpu.why}"
    elif errors:
        reason, message = "ECCError", f"{errors} uncorrectable memory errors"
    said = fields(hardware)
    device = SchedulableDevice(
        type="gpu",
        id=gpu.uuid,
        minor=gpu.minor,
        resources={GPU_CORE: 100, GPU_MEMORY: memory(said.get("Memory Capacity", ""))},
        healthy=not reason,
        reason=reason,
        message=message,
        bus=gpu.bus,
    )
    there, details = placed(device, node)
    model = (said.get("Model Name") or gpu.chip).removeprefix("MetaX ")
    return Accelerator(there, "metax", model, driver, linked, details)


def listed_gpus(text: str) -> Iterator[ListedGPU]:
    """The GPUs of ``mx-smi -L``."""
    for line in lines(text):
        match = _LISTED.match(line.strip())
        if not match:
            continue
        said = match[5] or ""
        uuid = said.removeprefix("UUID:").strip() if match[4] == "Available" else ""
        why = "" if uuid else said or match[4]
        yield ListedGPU(int(match[1]), match[2], match[3], uuid, why)


def by_gpu(text: str) -> dict[int, str]:
    """The text about each GPU, by its number."""
    found: dict[int, list[str]] = {}
    block: list[str] = []
    for line in lines(text):
        if match := _GPU.match(line):
            block = found.setdefault(int(match[1]), [])
        block.append(line)
    return {gpu: "\n".join(each) for gpu, each in found.items()}


def uncorrectable(text: str) -> int:
    """Memory errors that were not corrected, of all kinds."""
    return sum(number(value) or 0 for key, value in pairs(text) if key in _UNCORRECTABLE)


def _links(node: NodeAccess) -> dict[int, tuple[DeviceLink, ...]]:
    """Read the links of GPUs; none where this version does not report them."""
    try:
        return links(link_matrix(node.run("mx-smi", "topo", "-m"), "GPU", {"MX": "MetaXLink"}))
    except ToolError:
        return {}
