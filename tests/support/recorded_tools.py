"""A node whose vendors' tools print what was recorded of real ones.

Recorded outputs are in ``tests/devices/recorded``: comments that say where each is from, then
lines "$ COMMAND" with what it printed below. A command that was not recorded fails, as one does
that a tool does not know.
"""

from __future__ import annotations

from pathlib import Path

from koord_devices.contract import ToolError
from koord_host.devices.gpu import DriverUnavailableError, GPUDetails, GPUReading

from tests.support.text_tree import TextTree

RECORDED = Path(__file__).parents[1] / "devices/recorded"


def recorded(name: str) -> dict[str, str]:
    """What each command printed."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (RECORDED / f"{name}.txt").read_text().splitlines():
        if line.startswith("$ "):
            lines = found.setdefault(line[2:], [])
        elif not line.startswith("# "):
            lines.append(line)
    return {command: "\n".join([*each, ""]) for command, each in found.items()}


class NoGPUs:
    """A node without NVIDIA's library."""

    driver = ""

    def read(self, at: float) -> list[GPUReading]:
        raise DriverUnavailableError("nvidia-ml-py is not installed")

    def details(self) -> dict[str, GPUDetails]:
        return {}


class RecordedNode:
    """Implements ``NodeAccess``."""

    sys_root = "/sys"
    dev_root = "/dev"

    def __init__(
        self, printed: dict[str, str], tree: TextTree | None = None, gpus: object = None
    ) -> None:
        self.printed = printed
        self.tree = tree or TextTree()
        self.gpus = gpus or NoGPUs()
        self.steady = 0.0
        self.wall = 1_700_000_000.0
        self.ran: list[str] = []

    def has(self, tool: str) -> bool:
        return any(command.split()[0] == tool for command in self.printed)

    def run(self, *command: str) -> str:
        words = " ".join(command)
        self.ran.append(words)
        if words not in self.printed:
            raise ToolError("ToolFailed", f"{words} ended with 1: unknown option")
        return self.printed[words]


def pci_tree(*functions: tuple[str, str, str, str], root: str = "pci0000:80") -> TextTree:
    """sysfs with these PCI functions: address, vendor, device, class; all on NUMA node 1."""
    tree = TextTree()
    for address, vendor, device, of_class in functions:
        where = f"/sys/devices/{root}/0000:80:01.0/{address}"
        fields = {"vendor": vendor, "device": device, "class": of_class}
        tree.texts |= {f"{where}/{name}": f"0x{value}\n" for name, value in fields.items()}
        tree.texts[f"{where}/numa_node"] = "1\n"
        tree.links[f"/sys/bus/pci/devices/{address}"] = where
    return tree
