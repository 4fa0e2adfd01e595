"""The contract of vendors. No IO.

A vendor is a module of ``koord_devices.vendors``, found by its name, or of another distribution
that names it in the group ``pykoord.device_vendors``. It has a class ``Vendor`` with the methods
of ``AnyVendor``. Between two answers a ``Vendor`` remembers what it needs, such as a GPU's errors.
Its accelerators' ``vendor`` is the module's name.
What it wants of the node it asks ``NodeAccess``; it parses what tools print in pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from koord_host.devices.gpu import GPUInventory
from koord_host.devices.pci import PCIFunction
from koord_host.kernel_files.interface import FileTree

from koord_devices.core.accelerator import Accelerator


class ToolError(Exception):
    """A vendor's tool is missing, failed, or did not answer in time.

    ``reason`` is one word for the device's condition, the message one line.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NodeAccess(Protocol):
    """Access of vendors to the node.

    ``tree`` reads sysfs, which is at ``sys_root``, and lists ``dev_root``. ``steady`` is
    CLOCK_MONOTONIC, ``wall`` the wall clock, in seconds, when the probe began.
    """

    tree: FileTree
    sys_root: str
    dev_root: str
    gpus: GPUInventory
    steady: float
    wall: float

    def run(self, *command: str) -> str:
        """Run a command; return its output.

        Raises:
            ToolError: it cannot be run, fails, or takes too long.
        """
        ...

    def has(self, tool: str) -> bool:
        """True if there is a program of this name."""
        ...


class AnyVendor(Protocol):
    """One vendor of accelerators."""

    def owns(self, function: PCIFunction) -> bool:
        """True if a physical PCI function is one of its accelerators."""
        ...

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> Iterable[Accelerator]:
        """All its accelerators, of which ``functions`` are on the PCI bus; not empty.

        Raises:
            ToolError: its tool does not answer.
            OutputError: it prints what cannot be parsed.
        """
        ...
