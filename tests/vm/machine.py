"""The node's life: booted in QEMU's software emulation, off when its scenario is done."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.vm import base

QEMU = "qemu-system-x86_64"
PROGRAMS = (QEMU, "debootstrap", "mke2fs", "unshare", "apt-get", "git")
LONGEST = 2700
"""Seconds after which a node that is still up is given up."""
SILENT = 120.0
"""Seconds without a byte on the console, where systemd draws a progress bar twice a second as long
as the scenario runs: the emulator is frozen."""

_KERNEL = (
    # The other CPUs come when the scenario wants them.
    *("root=/dev/vda", "rw", "console=ttyS0", "psi=1", "panic=-1", "maxcpus=2"),
    # Against spies, whom this machine has not. Page tables of the kernel's own have the emulator
    # forget what it has translated at each system call.
    "mitigations=off",
    *("systemd.getty_auto=no", "systemd.journald.forward_to_console=1"),
)


@dataclasses.dataclass(frozen=True)
class Life:
    """What is known of a node that is off again."""

    steps: dict[str, dict[str, Any]]
    """By name: the outcome or the error, and the seconds."""
    log: Path
    """What it and its emulator wrote on the way."""
    ended: bool
    """Whether it went off by itself, its scenario done."""
    frozen: str = ""
    """Where its processors were as the emulator froze; "" where it did not."""

    def outcome(self, step: str, otherwise: Any = None) -> Any:
        return self.steps.get(step, {}).get("outcome", otherwise)

    def console_end(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


def live(disk: Path, console: Path, *words: str, drives: Sequence[str] = ()) -> Life:
    """Boot the disk, wait until the machine is off, and read what it wrote.

    ``words`` are more of the kernel's command line, ``drives`` are more disks, in QEMU's words.

    One thread emulates all processors. Side by side they are faster by a third, and QEMU 7.2
    froze in three of six boots: all of them spin with interrupts off.
    """
    # Beside the disk, which is this run's alone: another's results must not be taken for ours.
    results, monitor = disk.with_name("results.jsonl"), disk.with_name("monitor.sock")
    command = [
        # numpy is built for processors from 2009 on (x86-64-v2); QEMU's default is an older one.
        # Beside other tests it has a processor to itself: what it waits for is measured by clocks.
        *(
            "nice",
            "-n",
            "-10",
            QEMU,
            "-accel",
            "tcg,thread=single",
            "-cpu",
            "Nehalem",
            "-smp",
            "8",
            "-m",
            "2048",
        ),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(base.root() / "vmlinuz"), "-initrd", str(base.root() / "initrd.img")),
        *("-append", " ".join((*_KERNEL, *words))),
        # Nothing of the disk is wanted after a crash of this machine.
        *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
        *(word for drive in drives for word in ("-drive", drive)),
        # Two network cards, connected to nothing.
        *("-netdev", "hubport,id=net0,hubid=0", "-device", "virtio-net-pci,netdev=net0"),
        *("-netdev", "hubport,id=net1,hubid=0", "-device", "virtio-net-pci,netdev=net1"),
        *("-serial", "stdio", "-serial", f"file:{results}"),
        *("-monitor", f"unix:{monitor},server=on,wait=off"),
    ]
    frozen = ""
    with console.open("wb") as log:
        qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            if _wait(qemu, console):
                frozen = _processors(monitor)
            ended = qemu.poll() is not None
        finally:
            qemu.kill()
            qemu.wait()
    return Life(_steps(results), console, ended, frozen)


def _wait(qemu: subprocess.Popen[bytes], console: Path) -> bool:
    """Wait until the machine is off or given up; True if it is frozen."""
    now = heard = time.monotonic()
    end, size = now + LONGEST, -1
    while qemu.poll() is None and now < end:
        time.sleep(1)
        now = time.monotonic()
        if console.stat().st_size != size:
            heard, size = now, console.stat().st_size
        elif now - heard > SILENT:
            return True
    return False


def _processors(monitor: Path) -> str:
    """Each processor's instruction pointer, by QEMU's monitor."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(monitor))
            connection.sendall(b"info registers -a\n")
            said = b""
            while said.count(b"(qemu)") < 2:
                said += connection.recv(1 << 16)
    except OSError as error:
        return f"the monitor does not answer: {error}"
    lines = said.decode(errors="replace").splitlines()
    return "; ".join(one.strip() for one in lines if one.startswith(("CPU#", "RIP")))


def _steps(results: Path) -> dict[str, dict[str, Any]]:
    lines = results.read_text(errors="replace").splitlines() if results.exists() else []
    # A node that was given up may leave half a line.
    read = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return {line["step"]: line for line in read}
