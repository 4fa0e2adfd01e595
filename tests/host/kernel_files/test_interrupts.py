"""Interrupts out of /proc and sysfs: all drivers' names, counters, cards; and of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from koord_host.kernel import KernelFilesystem
from koord_host.kernel_files import interrupts
from koord_host.kernel_files.interrupts import CPUInterruptTime, InterruptLine

TEXT = """\
           CPU0       CPU2
  9:          1          2   IO-APIC   9-fasteoi   acpi
 38:          0      31007 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:      25443          0   ITS-MSI 1572865 Edge      eth0-TxRx-3
NMI:          0          0   Non-maskable interrupts
"""


def test_lines() -> None:
    assert interrupts.lines(TEXT, {38, 39, 77}) == {
        38: InterruptLine(31007, "virtio2-input.0"),
        39: InterruptLine(25443, "eth0-TxRx-3"),
    }


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("virtio2-input.3", (3, True)),
        ("virtio2-output.3", (3, False)),
        ("virtio2-config", None),
        ("i40e-eth0-TxRx-12", (12, True)),
        ("eth0-Tx-Rx-1", (1, True)),
        ("bnxt_en-eth0-TxRx-7", (7, True)),
        ("mlx5_comp63@pci:0000:3b:00.0", (63, True)),
        ("mlx5_async0@pci:0000:3b:00.0", None),
        ("ice-0000:4b:00.0:misc", None),
        ("iavf-0000:65:0a.0:mbx", None),
        ("ena-mgmnt@pci:0000:00:05.0", None),
        ("eth0-rxtx-2", (2, True)),
        ("eth0-event-9", None),
        ("hns3-0000:7d:00.0-Tx-4", (4, False)),
        ("enp3s5", (0, True)),  # the card's only one
    ],
)
def test_queues_by_drivers_names(name: str, served: tuple[int, bool] | None) -> None:
    assert interrupts.served_queue(name, "enp3s5") == served


def test_time_in_interrupts_counts_a_guests_time_once() -> None:
    # Katalyst adds guest and guest_nice, which user and nice contain.
    text = "cpu 0 0 0 0 0 0 0 0 0 0\ncpu3 400 10 50 500 5 10 20 5 300 10\nintr 5\n"
    assert interrupts.interrupt_times(text) == {3: CPUInterruptTime(30, 1000)}


def test_squeezes_with_and_without_numbers_of_cpus() -> None:
    assert interrupts.squeezes("00000010 00000000 0000000a\n0 0 2\n") == {0: 10, 1: 2}
    numbered = "1 0 a 0 0 0 0 0 0 0 0 0 00000005 0 0\n"
    assert interrupts.squeezes(numbered) == {5: 10}


def test_this_machine() -> None:
    """The kernel's own texts have the expected form, whatever they say."""
    files = KernelFilesystem()
    for card in interrupts.cards(files, "/sys"):
        found = interrupts.lines(files.read("/proc/interrupts"), card.irqs)
        assert found.keys() <= set(card.irqs)
        assert any(interrupts.served_queue(line.name, card.name) for line in found.values())
    running = Path("/sys/devices/system/cpu/online").read_text()
    count = len(interrupts.interrupt_times(files.read("/proc/stat")))
    assert count == len(interrupts.squeezes(files.read("/proc/net/softnet_stat"))), running
