"""AMD: what the driver amdgpu says in sysfs; amd-smi or rocm-smi, where there is one, names models.

``/sys/bus/pci/devices/ADDRESS/`` has ``unique_id``, ``mem_info_vram_total`` (bytes),
``product_name`` and ``ras/umc_err_count`` ("ue: N": memory errors that were not corrected).
``/sys/class/kfd/kfd/topology/nodes/N`` says which GPUs XGMI links. Of a Radeon with less than 1 GiB
of memory, which is part of a processor, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord_host.devices import pci
from koord_host.devices.pci import PCIFunction
from koord_host.kernel_files.interface import FileTree
from koord_model.keys import GPU_CORE, GPU_MEMORY
from koord_model.node_info import SchedulableDevice

from koord_devices.contract import NodeAccess, ToolError
from koord_devices.core.accelerator import Accelerator, DeviceLink
from koord_devices.core.linked_groups import Pair, links
from koord_devices.core.tool_output import at, decode, fields, memory, number, objects
from koord_devices.placement import placed, render_minor

_VENDOR = "1002"
_CLASSES = ("03", "12")
_PART_OF_A_PROCESSOR = 1 << 30
_XGMI = "11"
_ROCM_SMI = ("rocm-smi", "--showuniqueid", "--showproductname", "--showbus", "--showmeminfo")
_NOT_NAMES = "0x"


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool's record of one GPU; missing values are empty."""

    bus: str = ""
    unique_id: str = ""
    model: str = ""
    memory: int = 0
    driver: str = ""


class Vendor:
    """Reads sysfs, and asks a tool for the rest."""

    def owns(self, function: PCIFunction) -> bool:
        """True if it is a GPU: their bridges and sound devices are AMD's, too."""
        return function.vendor == _VENDOR and function.pci_class.startswith(_CLASSES)

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        """All GPUs on the bus, but those that are part of a processor."""
        entries = _entries(node)
        named = {pci.address(entry.bus): entry for entry in entries if entry.bus}
        if not named and len(entries) == len(functions):
            # Early versions do not say where a GPU is; they list them by address.
            named = dict(zip((function.address for function in functions), entries, strict=True))
        minors = {
            function.address: _minor(node, function.address, index)
            for index, function in enumerate(functions)
        }
        linked = _links(node, minors)
        found = (
            _accelerator(
                node, address, minor, named.get(address, ToolEntry()), linked.get(minor, ())
            )
            for address, minor in minors.items()
        )
        return [accelerator for accelerator in found if not _part_of_a_processor(accelerator)]


def _minor(node: NodeAccess, address: str, index: int) -> int:
    minor = render_minor(node, address)
    return index if minor is None else minor


def _accelerator(
    node: NodeAccess,
    address: str,
    minor: int,
    said: ToolEntry,
    linked: tuple[DeviceLink, ...],
) -> Accelerator:
    where = pci.directory(node.sys_root, address)
    unique = _read(node.tree, f"{where}/unique_id") or said.unique_id.removeprefix("0x")
    errors = uncorrectable(_read(node.tree, f"{where}/ras/umc_err_count"))
    size = number_of_bytes(_read(node.tree, f"{where}/mem_info_vram_total")) or said.memory
    message = f"{errors} uncorrectable memory errors" if errors else ""
    device = SchedulableDevice(
        type="gpu",
        id=f"amd-{unique or address}",
        minor=minor,
        resources={GPU_CORE: 100, GPU_MEMORY: size},
        healthy=not errors,
        reason="ECCError" if errors else "",
        message=message,
        bus=address,
    )
    there, details = placed(device, node)
    model = said.model or _read(node.tree, f"{where}/product_name")
    driver = said.driver or _read(node.tree, f"{node.sys_root}/module/amdgpu/version")
    return Accelerator(there, "amd", model, driver, linked, details)


def _part_of_a_processor(accelerator: Accelerator) -> bool:
    return 0 < accelerator.device.resources.get(GPU_MEMORY, 0) < _PART_OF_A_PROCESSOR


def _entries(node: NodeAccess) -> list[ToolEntry]:
    """Read a tool's records; none without a tool, or if it fails: sysfs has the essentials."""
    try:
        if node.has("amd-smi"):
            return list(amd_smi(node.run("amd-smi", "static", "--json")))
        if node.has("rocm-smi"):
            command = (*_ROCM_SMI, "vram", "--showdriverversion", "--json")
            return list(rocm_smi(node.run(*command)))
    except (ToolError, ValueError):
        pass
    return []


def amd_smi(text: str) -> Iterator[ToolEntry]:
    """The GPUs of ``amd-smi static --json``: an array, from version 25 on one in "gpu_data"."""
    for entry in objects(text, "gpu_data"):
        unit = at(entry, "vram", "size", "unit").removesuffix("B")
        serial = at(entry, "asic", "asic_serial").lower()
        yield ToolEntry(
            at(entry, "bus", "bdf"),
            serial,
            at(entry, "asic", "market_name"),
            memory(at(entry, "vram", "size", "value"), unit),
            at(entry, "driver", "version"),
        )


def rocm_smi(text: str) -> Iterator[ToolEntry]:
    """The cards of ``rocm-smi --json``, whose names differ between versions."""
    given: Any = decode(text)
    cards: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    driver = at(cards, "system", "Driver version")
    for name in sorted(cards, key=_by_number):
        if not name.startswith("card"):
            continue
        card = cards[name]
        names = (at(card, key) for key in ("Card Series", "Card series", "Device Name"))
        model = next((label for label in names if label and not label.startswith(_NOT_NAMES)), "")
        size = at(card, "VRAM Total Memory (B)")
        yield ToolEntry(at(card, "PCI Bus"), at(card, "Unique ID"), model, memory(size), driver)


def uncorrectable(text: str) -> int:
    """The errors of "ue: N" in ``umc_err_count``."""
    return number(fields(text).get("ue", "")) or 0


def number_of_bytes(text: str) -> int:
    """The bytes in a file of sysfs; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _links(node: NodeAccess, minors: Mapping[str, int]) -> dict[int, tuple[DeviceLink, ...]]:
    return links(xgmi(node.tree, f"{node.sys_root}/class/kfd/kfd/topology/nodes", minors))


def xgmi(tree: FileTree, nodes: str, minors: Mapping[str, int]) -> dict[Pair, str]:
    """Read the XGMI links between GPUs, by minor, from the kernel's compute driver."""
    try:
        names = tree.names(nodes)
    except OSError:
        return {}
    known = {
        name: minors[address]
        for name in names
        if (address := _address(_words(_read(tree, f"{nodes}/{name}/properties")))) in minors
    }
    found: dict[Pair, str] = {}
    for name, minor in known.items():
        for link in _names(tree, f"{nodes}/{name}/io_links"):
            words = _words(_read(tree, f"{nodes}/{name}/io_links/{link}/properties"))
            other = known.get(words.get("node_to", ""))
            if words.get("type") == _XGMI and other is not None and other != minor:
                found[frozenset((minor, other))] = "XGMI"
    return found


def _address(words: Mapping[str, str]) -> str:
    """The PCI address of a node of the topology; "" for a processor's."""
    place, domain = number(words.get("location_id", "")), number(words.get("domain", "0"))
    if not place or domain is None:
        return ""
    return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"


def _words(text: str) -> dict[str, str]:
    parts = (line.split() for line in text.splitlines())
    return {each[0]: each[1] for each in parts if len(each) == 2}


def _names(tree: FileTree, path: str) -> list[str]:
    try:
        return tree.names(path)
    except OSError:
        return []


def _read(tree: FileTree, path: str) -> str:
    """A file's text without its end; "" where there is none."""
    try:
        return tree.read(path).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _by_number(name: str) -> tuple[int, str]:
    return (number(name.removeprefix("card")) or 0, name)
