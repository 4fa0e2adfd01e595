"""A test double of /proc/irq, /proc/interrupts and sysfs's network cards, in memory.

It enforces the kernel's rules for writes: an interrupt takes only CPUs that run (EINVAL), one that
the kernel manages takes none (EIO), a queue takes masks of any CPUs. The rules are those of
kernel/irq/proc.c and net/core/net-sysfs.c; ``tests/vm`` holds them against a real kernel.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from koord_host.knobs.forms import CPU_MASK
from koord_model import cpuset

from tests.support.text_tree import TextTree

PCI = "/sys/devices/pci0000:00"


class FakeInterrupts(TextTree):
    """Cards of a machine of ``cpus`` CPUs; it implements ``KernelFiles`` as far as that goes."""

    def __init__(self, cpus: int = 8) -> None:
        super().__init__()
        self.cpus = cpus
        self.managed: set[int] = set()
        #: Times each interrupt came, on CPU 0.
        self.times: dict[int, int] = {}
        self.jiffies: dict[int, tuple[int, int]] = dict.fromkeys(range(cpus), (0, 0))
        self._names: dict[int, str] = {}
        self.writes: list[tuple[str, str]] = []
        self.count()

    def add_card(self, name: str, irqs: Iterable[int]) -> None:
        """A virtio card with a pair of queues for each interrupt but the first, its own."""
        number = len(self.links)
        function, device = f"{PCI}/0000:00:0{number}.0", f"{PCI}/0000:00:0{number}.0/virtio{number}"
        path = f"/sys/class/net/{name}"
        self.links[f"{path}/device"] = device
        self.texts |= {
            f"{device}/vendor": "0x1af4\n",
            f"{path}/statistics/rx_packets": "0\n",
        }
        for queue, irq in enumerate(irqs, -1):
            self.texts[f"{function}/msi_irqs/{irq}"] = "msix\n"
            self.texts[f"/proc/irq/{irq}/smp_affinity_list"] = f"0-{self.cpus - 1}\n"
            self._names[irq] = f"virtio{number}-config"
            if queue >= 0:
                self._names[irq] = f"virtio{number}-input.{queue}"
                self.texts[f"{path}/queues/rx-{queue}/rps_cpus"] = "00\n"
                self.texts[f"{path}/queues/tx-{queue}/xps_cpus"] = "ff\n"
        self.count()

    def add_process(self, pid: int, name: str) -> None:
        self.texts[f"/proc/{pid}/comm"] = f"{name}\n"
        self.texts[f"/proc/{pid}/stat"] = f"{pid} ({name}) S {'0 ' * 18}{pid} 0\n"

    def remove_process(self, pid: int) -> None:
        for file in ("comm", "stat"):
            del self.texts[f"/proc/{pid}/{file}"]

    def count(self) -> None:
        """Have the files show ``times`` and ``jiffies`` (in interrupts, in all)."""
        head = " ".join(f"CPU{cpu}" for cpu in range(self.cpus))
        lines = [
            f"{irq:4}: {self.times.get(irq, 0)} {'0 ' * (self.cpus - 1)}"
            f" PCI-MSIX-0000:00:03.0 0-edge {name}"
            for irq, name in self._names.items()
        ]
        self.texts["/proc/interrupts"] = "\n".join([f"   {head}", *lines, " NMI: 0 0", ""])
        # 50 jiffies of every hundred that were not interrupts were a guest's: user's, too.
        stat = [
            f"cpu{cpu} {whole - spent} 0 0 0 0 0 {spent} 0 {(whole - spent) // 2} 0"
            for cpu, (spent, whole) in self.jiffies.items()
        ]
        self.texts["/proc/stat"] = "\n".join(["cpu 0 0 0 0 0 0 0 0 0 0", *stat, "intr 0", ""])
        rows = [
            " ".join(["00000000"] * 12 + [f"{cpu:08x}", "00000000", "00000000"])
            for cpu in range(self.cpus)
        ]
        self.texts["/proc/net/softnet_stat"] = "\n".join([*rows, ""])

    def affinity(self, irq: int) -> str:
        return self.read(f"/proc/irq/{irq}/smp_affinity_list").strip()

    def write(self, path: str, text: str) -> None:
        self.read(path)
        directory, _, file = path.rpartition("/")
        if file == "smp_affinity_list":
            if int(directory.rpartition("/")[2]) in self.managed:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            if not cpuset.parse(text) & frozenset(range(self.cpus)):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
            self.texts[path] = f"{cpuset.render(cpuset.parse(text))}\n"
        elif file in ("rps_cpus", "xps_cpus"):
            self.texts[path] = f"{int(CPU_MASK.encode(CPU_MASK.decode(text), ''), 16):02x}\n"
        else:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        self.writes.append((path, text.strip()))

    def write_and_read(self, path: str, text: str) -> str:
        self.write(path, text)
        return self.read(path)
