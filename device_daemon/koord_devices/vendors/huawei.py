"""Huawei's Ascend NPUs: npu-smi.

A chip is an accelerator: a card may have several. Its minor N is that of /dev/davinciN: the
chip's physical ID where npu-smi has that column, else its logical one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koord_host.devices.pci import PCIFunction
from koord_model.keys import GPU_MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP
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

_VENDOR, _ACCELERATOR = "19e5", "12"
_BRIDGES = ("1710", "1711")
_HEALTHY = ("OK", "Warning", "General Warning", "")
_AI_CPUS = {"Ascend-910B": 0, "Ascend-910B2": 6, "Ascend-910B3": 7, "Ascend-910B4": 7}
"""Numbers of AI CPUs where npu-smi has none; they are Koordinator's."""
_AI_CORES = {"Ascend-310P3": 8}


@dataclass(frozen=True, slots=True)
class Chip:
    """A row of ``npu-smi info -m``."""

    card: int
    number: int
    minor: int
    model: str


class Vendor:
    """Asks npu-smi."""

    def owns(self, function: PCIFunction) -> bool:
        """True if it is an NPU: Huawei's network cards and its servers' bridges are not."""
        return (
            function.vendor == _VENDOR
            and function.pci_class.startswith(_ACCELERATOR)
            and function.device not in _BRIDGES
        )

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        """All chips."""
        chips = chips_of(node.run("npu-smi", "info", "-m"))
        if not chips:
            raise OutputError("npu-smi info -m lists no chip")
        linked = _links(node, chips)
        cards = {chip.card: _Card(node, chip.card, chip.model) for chip in chips}
        return [cards[chip.card].accelerator(chip, linked) for chip in chips]


class _Card:
    """A card's board, and its chips' memory and cores."""

    def __init__(self, node: NodeAccess, card: int, model: str) -> None:
        self._node = node
        ask = ("npu-smi", "info", "-i", str(card), "-t")
        self._ask = ask
        self.board = fields(node.run(*ask, "board"))
        self.usages = by_chip(node.run(*ask, "usages"))
        self.cores = self._cores(model)
        self.cpus = self._cpus(model)

    def accelerator(self, chip: Chip, linked: Mapping[int, tuple[DeviceLink, ...]]) -> Accelerator:
        usages = self.usages.get(chip.number, {})
        reason, message = self._health(chip)
        device = SchedulableDevice(
            type="gpu",
            id=f"npu-{chip.card}-{chip.minor}",
            minor=chip.minor,
            resources={
                GPU_MEMORY: chip_memory(usages),
                NPU_CORE: self.cores.get(chip.number, 0),
                NPU_CPU: self.cpus,
                NPU_DVPP: 100,
            },
            healthy=not reason,
            reason=reason,
            message=message,
            bus=self._bus(chip),
        )
        there, details = placed(device, self._node)
        driver = self.board.get("Software Version", "")
        links = linked.get(chip.minor, ())
        return Accelerator(there, "huawei", chip.model, driver, links, details)

    def _bus(self, chip: Chip) -> str:
        if (number(self.board.get("Chip Count", "1")) or 1) > 1:
            own = self._node.run(*self._ask, "board", "-c", str(chip.number))
            return fields(own).get("PCIe Bus Info", self.board.get("PCIe Bus Info", ""))
        return self.board.get("PCIe Bus Info", "")

    def _health(self, chip: Chip) -> tuple[str, str]:
        faults = number(self.board.get("Chip Fault", "0")) or 0
        if faults:
            return "ChipFault", f"card {chip.card} has {faults} chip faults"
        said = fields(self._node.run(*self._ask, "health", "-c", str(chip.number)))
        status = said.get("Health Status", said.get("Health", ""))
        if status in _HEALTHY:
            return "", ""
        code, why = said.get("Error Code", ""), said.get("Error Information", "")
        return "Unhealthy", f"npu-smi says {status}: {code} {why}".strip()

    def _cores(self, model: str) -> dict[int, int]:
        if model in _AI_CORES:
            chips = self.usages or {0: {}}
            return dict.fromkeys(chips, _AI_CORES[model])
        found = by_chip(self._node.run(*self._ask, "common"))
        return {chip: number(each.get("Aicore Count", "")) or 0 for chip, each in found.items()}

    def _cpus(self, model: str) -> int:
        if model in _AI_CPUS:
            return _AI_CPUS[model]
        try:
            printed = self._node.run(*self._ask, "cpu-num-cfg")
        except ToolError:
            return 0  # not every card can say
        return sum(number(value) or 0 for key, value in pairs(printed) if key.startswith("AI"))


def chips_of(text: str) -> list[Chip]:
    """The rows of ``npu-smi info -m`` that are NPUs; a card's controller (Mcu) is none."""
    found: list[Chip] = []
    physical = False
    for line in lines(text):
        words = line.split()
        physical = physical or "Phy-ID" in words
        names = 4 if physical else 3
        numbers = [number(word) for word in words[:names]]
        if len(words) <= names or None in numbers:
            continue
        card, chip, *_, minor = (each for each in numbers if each is not None)
        found.append(Chip(card, chip, minor, "-".join(words[names:])))
    return found


def by_chip(text: str) -> dict[int, dict[str, str]]:
    """Lines about chips, by the chip's number; some versions name it first, some last.

    What is about the card, or about its controller, is left out.
    """
    found: dict[int, dict[str, str]] = {}
    block: dict[str, str] = {}
    for line in [*lines(text), ""]:
        entry = next(pairs(line), None)
        if entry is not None:
            block.setdefault(*entry)
        elif block:
            chip = number(block.pop("Chip ID", ""))
            if chip is not None:
                found[chip] = block
            block = {}
    return found


def chip_memory(usages: Mapping[str, str]) -> int:
    """Bytes of its HBM, or, of a chip that has none, of its DDR."""
    hbm = memory(usages.get("HBM Capacity(MB)", ""), "M")
    return hbm or memory(usages.get("DDR Capacity(MB)", ""), "M")


def _links(node: NodeAccess, chips: Sequence[Chip]) -> dict[int, tuple[DeviceLink, ...]]:
    """Read the links of chips; none where this version, or this card, does not report them."""
    try:
        matrix = link_matrix(node.run("npu-smi", "info", "-t", "topo"), "NPU", {"HCCS": "HCCS"})
    except ToolError:
        return {}
    known = {chip.minor for chip in chips}
    return links({pair: kind for pair, kind in matrix.items() if pair <= known})
