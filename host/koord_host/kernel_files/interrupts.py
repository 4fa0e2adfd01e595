"""Interrupts of network cards: /proc/interrupts, /proc/stat, softnet_stat, and sysfs's cards."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from koord_host.kernel_files.interface import FileTree

_NO_QUEUE = frozenset(
    "admin aeq async cmd config ctl ctrl event fdir fw lsc mbox mbx mgmnt mgmt misc".split()  # noqa: SIM905
)
"""Words in names of interrupts that serve no queue."""
_SENDS, _RECEIVES = frozenset({"tx", "output"}), frozenset({"rx", "input"})
_QUEUE = re.compile(r"(?:rx|tx)-(\d+)")
_SOFTNET_CPU = 12


class InterruptLine(NamedTuple):
    """One line of /proc/interrupts: how often since boot, on all CPUs, and its last name."""

    times: int
    name: str


class CPUInterruptTime(NamedTuple):
    """Jiffies since boot: in hard and soft interrupts, and in all."""

    interrupts: int
    whole: int


class CardFiles(NamedTuple):
    """A network card as sysfs has it: ``irqs`` are all of its PCI function's."""

    name: str
    path: str
    irqs: tuple[int, ...]
    rx_queues: tuple[int, ...]
    tx_queues: tuple[int, ...]


def lines(text: str, wanted: Collection[int]) -> dict[int, InterruptLine]:
    """The lines of these interrupts in the text of /proc/interrupts."""
    head, _, rest = text.partition("\n")
    cpus = len(head.split())
    found = {}
    for line in rest.split("\n"):
        number, colon, columns = line.partition(":")
        if not colon or not number.strip().isdigit() or int(number) not in wanted:
            continue
        words = columns.split()
        counts = [int(word) for word in words[:cpus] if word.isdigit()]
        name = words[-1] if len(words) > len(counts) else ""
        found[int(number)] = InterruptLine(sum(counts), name)
    return found


def served_queue(name: str, card: str) -> tuple[int, bool] | None:
    """The queue that an interrupt serves, by its name, and whether it receives.

    ``None``: it serves none, such as one that reports the state of the link. Drivers name them
    freely; a number at the end is the queue in all of them ("eth0-TxRx-3", "virtio2-input.0",
    "mlx5_comp3@pci:0000:3b:00.0"). A card with one interrupt gives it its own name.
    """
    if name == card:
        return 0, True
    name = name.partition("@")[0]
    words = frozenset(re.split(r"[^a-z]+", name.lower()))
    number = re.search(r"\d+$", name)
    if number is None or words & _NO_QUEUE:
        return None
    return int(number[0]), not words & _SENDS or bool(words & _RECEIVES)


def interrupt_times(text: str) -> dict[int, CPUInterruptTime]:
    """By CPU, from the text of /proc/stat. A guest's time is in user's already.

    Raises:
        ValueError: a line is none of the kernel's.
    """
    found = {}
    for line in text.split("\n"):
        if not line.startswith("cpu"):
            break
        words = line.split()
        if words[0] != "cpu":
            times = [int(word) for word in words[1:9]]
            found[int(words[0][3:])] = CPUInterruptTime(sum(times[5:7]), sum(times))
    return found


def squeezes(text: str) -> dict[int, int]:
    """By CPU, how often receiving ran out of its budget, from /proc/net/softnet_stat.

    Raises:
        ValueError: a line is none of the kernel's.
    """
    found = {}
    for row, line in enumerate(text.splitlines()):
        words = line.split()
        # Before Linux 5.10 a row has no number; it is of the CPUs that run, in their order.
        cpu = int(words[_SOFTNET_CPU], 16) if len(words) > _SOFTNET_CPU else row
        found[cpu] = int(words[2], 16)
    return found


def cards(tree: FileTree, sys_root: str) -> Iterator[CardFiles]:
    """Network cards with a device, as far as this network namespace has them.

    Raises:
        OSError: sysfs cannot be read.
    """
    for name in tree.names(f"{sys_root}/class/net"):
        path = f"{sys_root}/class/net/{name}"
        try:
            device = tree.resolve(f"{path}/device")
            queues = tree.names(f"{path}/queues")
            irqs = _irqs(tree, device)
        except OSError:
            continue  # it has no device or no such interrupts, or is gone
        yield CardFiles(name, path, irqs, _queues(queues, "rx"), _queues(queues, "tx"))


def _irqs(tree: FileTree, device: str) -> tuple[int, ...]:
    """A virtio device's interrupts are those of the PCI function above it."""
    function = device if tree.exists(f"{device}/msi_irqs") else device.rpartition("/")[0]
    return tuple(sorted(int(irq) for irq in tree.names(f"{function}/msi_irqs") if irq.isdigit()))


def _queues(names: Collection[str], kind: str) -> tuple[int, ...]:
    found = (_QUEUE.fullmatch(name) for name in names if name.startswith(kind))
    return tuple(sorted(int(match[1]) for match in found if match))
