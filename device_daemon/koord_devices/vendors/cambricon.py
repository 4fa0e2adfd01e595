"""Cambricon's MLUs: cnmon."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from koord_host.devices.pci import PCIFunction
from koord_model.keys import GPU_CORE, GPU_MEMORY
from koord_model.node_info import SchedulableDevice

from koord_devices.contract import NodeAccess
from koord_devices.core.accelerator import Accelerator
from koord_devices.core.tool_output import OutputError, fields, lines, memory, number, pairs
from koord_devices.placement import placed

_VENDOR = "cabc"
_DRIVER = re.compile(r"Driver\s+v?([0-9][0-9.]*)|CNMON\s+v?([0-9][0-9.]*)")
_BUS = re.compile(r"\b[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")
# No part of these can match where its neighbour does: a line costs its length, not its square.
_FIRST = re.compile(r"\|\s*([0-9]{1,4})\s+\S+\s+(\S+)\s+v[^\s|]+\s*\|([^|]*)\|")
_MEMORY = re.compile(r"(?<![0-9])[0-9]{1,9}\s*MiB\s*/\s*([0-9]{1,9})\s*MiB")


@dataclass(frozen=True, slots=True)
class Card:
    """A card's two rows of the table that ``cnmon`` prints; its bus is there from version 5 on."""

    minor: int
    model: str
    bus: str
    memory: int


class Vendor:
    """Asks cnmon."""

    def owns(self, function: PCIFunction) -> bool:
        """True if it is an MLU, and no bridge."""
        return function.vendor == _VENDOR and not function.pci_class.startswith("06")

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        """All cards."""
        table = node.run("cnmon")
        cards = list(cards_of(table))
        if not cards:
            raise OutputError("cnmon lists no card")
        driver = driver_of(table)
        return [_accelerator(node, card, driver) for card in cards]


def _accelerator(node: NodeAccess, card: Card, driver: str) -> Accelerator:
    info = node.run("cnmon", "info", "-c", str(card.minor))
    said = fields(info)
    healthy, message = health(info)
    uuid = said.get("UUID", "")
    device = SchedulableDevice(
        type="gpu",
        id=uuid if uuid.upper() != "N/A" else "",
        minor=card.minor,
        resources={GPU_CORE: 100, GPU_MEMORY: card.memory},
        healthy=healthy,
        reason="" if healthy else "Unhealthy",
        message=message,
        bus=card.bus or bus_of(info),
    )
    there, details = placed(device, node)
    return Accelerator(
        there, "cambricon", said.get("Product Name", card.model), driver, (), details
    )


def cards_of(table: str) -> Iterator[Card]:
    """The cards of the table; rows that are none of a card are skipped."""
    for first, second in pairwise(lines(table)):
        match, use = _FIRST.search(first), _MEMORY.search(second)
        if match and use:
            bus = _BUS.search(match[3])
            size = memory(use[1], "M")
            yield Card(int(match[1]), match[2], bus[0] if bus else "", size)


def driver_of(table: str) -> str:
    """The driver's version; early tables have only the tool's, which is released with it."""
    matches = (match for line in lines(table) for match in _DRIVER.finditer(line))
    found = [match[1] or match[2] for match in matches]
    return found[-1] if found else ""


def health(info: str) -> tuple[bool, str]:
    """Return a card's health and problem, from the line "Device" that is not its PCI number."""
    states = [value for key, value in pairs(info) if key == "Device" and number(value) is None]
    if not states or states[-1] in ("Good", ""):
        return True, ""
    return False, f"cnmon says the device is {states[-1]}"


def bus_of(info: str) -> str:
    """The PCI address that ``cnmon info`` spells in parts; "" if one is missing."""
    said = fields(info)
    slots = [value for key, value in pairs(info) if key == "Device" and number(value) is not None]
    parts = [
        said.get("Domain ID", ""),
        said.get("Bus num", ""),
        *slots[:1],
        said.get("Function", ""),
    ]
    if len(parts) < 4 or not all(re.fullmatch(r"[0-9a-fA-F]{1,4}", part) for part in parts):
        return ""
    domain, bus, slot, function = parts
    return f"{domain:0>4}:{bus:0>2}:{slot:0>2}.{function}"
